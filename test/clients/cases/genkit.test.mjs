import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openAICompatible } from "@genkit-ai/compat-oai";
import { GenkitError, genkit, z } from "genkit";
import { baseURL, cut, loop, model, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

const plugin = (more = {}) => openAICompatible({ name: "codex", baseURL, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 120_000, ...more });
const ai = genkit({ plugins: [plugin()], model: `codex/${model}` });
const getWeather = ai.defineTool({ name: "get_weather", description: weather.description, inputSchema: z.object({ city: z.string() }), outputSchema: z.string() }, async ({ city }) => `sunny in ${city}`);
const City = z.object({ city: z.string(), population: z.number().int() });

const plain = (turn) => results(turn).map(([city, output]) => [city, output.replaceAll('"', "")]);

describe("Genkit", { concurrency: true }, () => {
  test("whole, with usage", async () => {
    const answer = await ai.generate({ system: "be short", prompt: "[[text pa]] [[text ris]] [[usage 21 8 13 5]]" });
    assert.equal(answer.text, "paris");
    assert.equal(answer.finishReason, "stop");
    assert.equal(answer.usage.totalTokens, 34);
  });

  test("streamed", async () => {
    const { stream, response } = ai.generateStream("[[text one ]] [[text two]]");
    const texts = [];
    for await (const chunk of stream) if (chunk.text) texts.push(chunk.text);
    assert.deepEqual(texts, ["one ", "two"]);
    assert.equal((await response).text, "one two");
  });

  for (const streamed of [false, true]) {
    test(`a loop of tools in three rounds, streamed ${streamed}`, async () => {
      const word = `genkit-loop-${streamed}`;
      const options = { prompt: loop(word), tools: [getWeather] };
      const answer = streamed ? await ai.generateStream(options).response : await ai.generate(options);
      assert.equal(answer.text, "warm");
      const seen = await turns(word);
      assert.equal(seen.length, 3);
      assert.deepEqual(plain(seen[2]), [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"], ["Oslo", "sunny in Oslo"]]);
    });
  }

  test("tool requests returned to the program", async () => {
    const answer = await ai.generate({ prompt: parallel("genkit-requests"), tools: [getWeather], returnToolRequests: true });
    assert.deepEqual(answer.toolRequests.map((r) => r.toolRequest.input.city), ["Paris", "Rome"]);
  });

  test("structured output", async () => {
    // Genkit adds the schema in words to the system message; without one, as a further user message.
    const { output } = await ai.generate({ system: "be short", prompt: `genkit-schema [[text ${JSON.stringify(rome)}]]`, output: { schema: City } });
    assert.deepEqual(output, rome);
    const [turn] = await turns("genkit-schema");
    assert.ok(JSON.stringify(turn).includes("population"));
  });

  test("image", async () => {
    const prompt = [{ text: "genkit-image [[text a pixel]]" }, { media: { url: pixel } }];
    assert.equal((await ai.generate({ prompt })).text, "a pixel");
    const [turn] = await turns("genkit-image");
    assert.equal(turn.input.at(-1).content.find((p) => p.type === "input_image").image_url, pixel);
  });

  test("a flow with several turns", async () => {
    const flow = ai.defineFlow("twice", async (word) => {
      const first = await ai.generate({ system: "be short", prompt: `${word} [[text Paris]]` });
      return (await ai.generate({ messages: first.messages, prompt: "why? [[text so]]" })).text;
    });
    assert.equal(await flow("genkit-flow"), "so");
    const sent = JSON.stringify((await turns("genkit-flow"))[1]);
    const places = ["be short", "genkit-flow", '"Paris"', "why?"].map((w) => sent.indexOf(w));
    assert.ok(places.every((p) => p >= 0), `${places} in ${sent}`);
  });

  test("reasoning", async () => {
    const answer = await ai.generate({ prompt: "[[reasoning because]] [[text so]]", config: { reasoning: { summary: "auto" } } });
    assert.equal(answer.reasoning, "because");
    assert.equal(answer.text, "so");
  });

  for (const streamed of [false, true]) {
    test(`stop, streamed ${streamed}`, async () => {
      const options = { prompt: "[[text Thought: ]] [[text look Obser]] [[text vation: none]]", config: { stopSequences: ["Observation:"] } };
      const answer = streamed ? await ai.generateStream(options).response : await ai.generate(options);
      assert.equal(answer.text, "Thought: look ");
      assert.equal(answer.finishReason, "stop");
    });
  }

  test("temperature and the length of the output are ignored", async () => {
    const config = { temperature: 0.2, topP: 0.9, maxOutputTokens: 10 };
    assert.equal((await ai.generate({ prompt: "[[text so]]", config })).text, "so");
  });

  test("cancelled", async () => {
    const controller = new AbortController();
    const { stream, response } = ai.generateStream({ prompt: "genkit-cancelled [[text so far]] [[silence]]", abortSignal: controller.signal });
    const ended = assert.rejects(response);
    await assert.rejects(async () => {
      for await (const chunk of stream) if (chunk.text) controller.abort();
    });
    await ended;
    await cut("genkit-cancelled");
  });

  test("errors have Genkit's states", async () => {
    const fails = (prompt, status, more = {}) => assert.rejects(ai.generate({ prompt, ...more }), (e) => (assert.ok(e instanceof GenkitError, e.stack), assert.equal(e.status, status), true));
    const stranger = genkit({ plugins: [plugin({ apiKey: "sk-wrong" })], model: `codex/${model}` });
    await assert.rejects(stranger.generate("x"), (e) => e.status === "UNAUTHENTICATED");
    await fails("[[error 429]]", "RESOURCE_EXHAUSTED");
    await fails("[[error 503]]", "UNAVAILABLE");
    await fails("x", "INVALID_ARGUMENT", { config: { nonsense: 1 } });
  });

  test("a stream that fails in the middle", async () => {
    const { stream, response } = ai.generateStream("[[text so far]] [[drop]]");
    const ended = assert.rejects(response);
    const texts = [];
    await assert.rejects(async () => {
      for await (const chunk of stream) texts.push(chunk.text);
    });
    await ended;
    assert.equal(texts.join(""), "so far");
  });
});
