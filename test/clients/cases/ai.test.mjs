import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, NoObjectGeneratedError, Output, ToolLoopAgent, generateObject, generateText, isStepCount, streamObject, streamText, tool } from "ai";
import { City, baseURL, cut, loop, model, parallel, pixel, results, rome, thinker, turns, weather } from "./bed.mjs";

const provider = createOpenAI({ baseURL, apiKey: process.env.API_KEY });
const tools = {
  get_weather: tool({ description: weather.description, inputSchema: weather.parameters, execute: async ({ city }) => `sunny in ${city}` }),
};
const cities = (turn) => results(turn).map(([city, output]) => [city, output.replaceAll('"', "")]);
const both = [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]];

for (const api of ["chat", "responses"]) {
  const m = provider[api](model);
  const word = (name) => `ai-${api}-${name}`;
  const ask = (prompt, more = {}) => ({ model: m, maxRetries: 0, prompt, ...more });
  // streamed is streamText whose errors are thrown by its parts and not printed.
  const streamed = (options) => streamText({ ...options, onError: () => {} });

  describe(`Vercel AI SDK: ${api}`, { concurrency: true }, () => {
    test("a loop of tools in three rounds, whole", async () => {
      const answer = await generateText(ask(loop(word("whole")), { tools, stopWhen: isStepCount(5) }));
      assert.equal(answer.text, "warm");
      const seen = await turns(word("whole"));
      assert.equal(seen.length, 3);
      assert.deepEqual(cities(seen[2]), [...both, ["Oslo", "sunny in Oslo"]]);
    });

    test("a loop of tools in three rounds, streamed", async () => {
      const answer = streamed(ask(loop(word("streamed")), { tools, stopWhen: isStepCount(5) }));
      const parts = [];
      for await (const p of answer.fullStream) parts.push(p);
      assert.deepEqual(parts.filter((p) => p.type === "text-delta").map((p) => p.text), ["wa", "rm"]);
      assert.equal(parts.filter((p) => p.type === "tool-result").length, 3);
      assert.deepEqual(cities((await turns(word("streamed")))[1]), both);
    });

    test("an agent", async () => {
      const agent = new ToolLoopAgent({ model: m, tools, instructions: "be short" });
      const answer = await agent.generate({ prompt: `${parallel(word("agent"))} [[then]] [[text warm]]` });
      assert.equal(answer.text, "warm");
      assert.ok(JSON.stringify((await turns(word("agent")))[1]).includes("be short"));
    });

    test("usage and the reason of the end", async () => {
      const answer = await generateText(ask("[[text par]] [[usage 21 8 13 5]] [[incomplete max_output_tokens]]"));
      assert.equal(answer.finishReason, "length");
      const whole = await generateText(ask("[[text paris]] [[usage 21 8 13 5]]"));
      assert.deepEqual([whole.finishReason, whole.usage.inputTokens, whole.usage.outputTokens], ["stop", 21, 13]);
    });

    test("generateObject", async () => {
      const { object } = await generateObject(ask(`${word("object")} [[text ${JSON.stringify(rome)}]]`, { schema: City }));
      assert.deepEqual(object, rome);
      const [turn] = await turns(word("object"));
      assert.equal(turn.text.format.type, "json_schema");
      assert.deepEqual(Object.keys(turn.text.format.schema.properties), ["city", "population"]);
    });

    test("generateObject of a text that is no object", () =>
      assert.rejects(generateObject(ask("[[text Rome]]", { schema: City })), (e) => NoObjectGeneratedError.isInstance(e)));

    test("streamObject", async () => {
      const answer = streamObject(ask('[[text {"city":"Rome",]] [[text "population":2800000}]]', { schema: City }));
      const partial = [];
      for await (const object of answer.partialObjectStream) partial.push(object);
      assert.deepEqual(partial[0], { city: "Rome" });
      assert.deepEqual(await answer.object, rome);
    });

    test("tools and then an object", async () => {
      const prompt = `${parallel(word("output"))} [[then]] [[text ${JSON.stringify(rome)}]]`;
      const { output } = await generateText(ask(prompt, { tools, output: Output.object({ schema: City }), stopWhen: isStepCount(3) }));
      assert.deepEqual(output, rome);
    });

    test("image", async () => {
      const content = [{ type: "text", text: `${word("image")} [[text a pixel]]` }, { type: "image", image: pixel }];
      const answer = await generateText({ model: m, maxRetries: 0, messages: [{ role: "user", content }] });
      assert.equal(answer.text, "a pixel");
      const [turn] = await turns(word("image"));
      assert.equal(turn.input.at(-1).content.find((p) => p.type === "input_image").image_url, pixel);
    });

    test("several turns", async () => {
      const question = { role: "user", content: `${word("turns")} [[text Paris]]` };
      const first = await generateText({ model: m, maxRetries: 0, messages: [question] });
      const messages = [question, ...first.response.messages, { role: "user", content: "why? [[text so]]" }];
      const second = await generateText({ model: m, maxRetries: 0, instructions: "be short", messages });
      assert.equal(second.text, "so");
      const sent = JSON.stringify((await turns(word("turns")))[1]);
      assert.ok([word("turns"), '"Paris"', "why?", "be short"].every((w) => sent.includes(w)), sent);
    });

    test("cancelled", async () => {
      const controller = new AbortController();
      const answer = streamed(ask(`${word("cancelled")} [[text so far]] [[silence]]`, { abortSignal: controller.signal }));
      const types = [];
      for await (const p of answer.fullStream) {
        types.push(p.type);
        if (p.type === "text-delta") controller.abort();
      }
      assert.equal(types.at(-1), "abort");
      await cut(word("cancelled"));
    });

    test("errors are APICallErrors", async () => {
      const fails = (options, statusCode, isRetryable, code) =>
        assert.rejects(generateText(options), (e) => {
          assert.ok(APICallError.isInstance(e), e.stack);
          assert.deepEqual([e.statusCode, e.isRetryable, e.data.error.code], [statusCode, isRetryable, code]);
          return true;
        });
      const stranger = createOpenAI({ baseURL, apiKey: "sk-wrong" })[api](model);
      await fails(ask("x", { model: stranger }), 401, false, "invalid_api_key");
      await fails(ask("x", { model: provider[api]("gpt-none") }), 404, false, "model_not_found");
      await fails(ask("[[error 429]]"), 429, true, "rate_limited");
      await fails(ask("[[error 503]]"), 503, true, "upstream_error");
    });

    test("a stream that fails in the middle", async () => {
      const texts = [], errors = [];
      for await (const p of streamed(ask("[[text so far]] [[drop]]")).fullStream) {
        if (p.type === "text-delta") texts.push(p.text);
        if (p.type === "error") errors.push(p.error);
      }
      assert.equal(texts.join(""), "so far");
      assert.equal(errors.length, 1);
    });
  });
}

describe("Vercel AI SDK: more", { concurrency: true }, () => {
  for (const how of ["generateText", "streamText"]) {
    test(`stop of chat completions, ${how}`, async () => {
      const options = { model: provider.chat(model), maxRetries: 0, prompt: "[[text Thought: ]] [[text look Obser]] [[text vation: none]]", stopSequences: ["Observation:"] };
      const text = how === "streamText" ? await streamText(options).text : (await generateText(options)).text;
      assert.equal(text, "Thought: look ");
    });
  }

  test("reasoning of responses", async () => {
    const answer = await generateText({
      model: provider.responses(thinker), maxRetries: 0, prompt: "[[reasoning because]] [[text so]]",
      providerOptions: { openai: { reasoningSummary: "auto", reasoningEffort: "low" } },
    });
    assert.equal(answer.reasoningText, "because");
    assert.equal(answer.text, "so");
  });
});
