import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { APICallError, Output, ToolLoopAgent, generateObject, generateText, isStepCount, streamObject, streamText, tool } from "ai";
import { City, baseURL, claude, cut, loop, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

const provider = createAnthropic({ baseURL, apiKey: process.env.API_KEY });
const model = provider(claude);
const tools = {
  get_weather: tool({ description: weather.description, inputSchema: weather.parameters, execute: async ({ city }) => `sunny in ${city}` }),
};
const cities = (turn) => results(turn).map(([city, output]) => [city, output.replaceAll('"', "")]);
const both = [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]];
const word = (name) => `ai-messages-${name}`;
const ask = (prompt, more = {}) => ({ model, maxRetries: 0, prompt, ...more });
// streamed is streamText whose errors are thrown by its parts and not printed.
const streamed = (options) => streamText({ ...options, onError: () => {} });
const thinking = { providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 2048 } } } };

describe("Vercel AI SDK: messages", { concurrency: true }, () => {
  test("a loop of tools in three rounds, whole", async () => {
    const answer = await generateText(ask(loop(word("whole")), { tools, stopWhen: isStepCount(5) }));
    assert.equal(answer.text, "warm");
    const seen = await turns(word("whole"));
    assert.equal(seen.length, 3);
    assert.deepEqual(cities(seen[2]), [...both, ["Oslo", "sunny in Oslo"]]);
  });

  test("a loop of tools in three rounds, streamed, with reasoning that comes back", async () => {
    const answer = streamed(ask(`[[reasoning hm]] ${loop(word("streamed"))}`, { tools, stopWhen: isStepCount(5), ...thinking }));
    const parts = [];
    for await (const p of answer.fullStream) parts.push(p);
    assert.deepEqual(parts.filter((p) => p.type === "reasoning-delta" && p.text).map((p) => p.text), ["hm"]);
    assert.deepEqual(parts.filter((p) => p.type === "text-delta").map((p) => p.text), ["wa", "rm"]);
    assert.equal(parts.filter((p) => p.type === "tool-result").length, 3);
    const seen = await turns(word("streamed"));
    assert.deepEqual(cities(seen[1]), both);
    assert.match(seen[2].input.find((i) => i.type === "reasoning").encrypted_content, /^encrypted-/);
  });

  test("an agent", async () => {
    const agent = new ToolLoopAgent({ model, tools, instructions: "be short" });
    const answer = await agent.generate({ prompt: `${parallel(word("agent"))} [[then]] [[text warm]]` });
    assert.equal(answer.text, "warm");
    assert.ok(JSON.stringify((await turns(word("agent")))[1]).includes("be short"));
  });

  test("usage and the reason of the end", async () => {
    const cutShort = await generateText(ask("[[text par]] [[incomplete max_output_tokens]]"));
    assert.equal(cutShort.finishReason, "length");
    const { finishReason, usage } = await generateText(ask("[[text paris]] [[usage 21 8 13 5]]"));
    assert.deepEqual([finishReason, usage.inputTokens, usage.inputTokenDetails.cacheReadTokens, usage.outputTokens], ["stop", 21, 8, 13]);
  });

  test("reasoning, whole", async () => {
    const answer = await generateText(ask("[[reasoning because]] [[text so]]", thinking));
    assert.deepEqual([answer.reasoningText, answer.text], ["because", "so"]);
  });

  test("generateObject and streamObject", async () => {
    const { object } = await generateObject(ask(`${word("object")} [[text ${JSON.stringify(rome)}]]`, { schema: City }));
    assert.deepEqual(object, rome);
    assert.equal((await turns(word("object")))[0].text.format.type, "json_schema");
    const answer = streamObject(ask('[[text {"city":"Rome",]] [[text "population":2800000}]]', { schema: City }));
    const partial = [];
    for await (const one of answer.partialObjectStream) partial.push(one);
    assert.deepEqual(partial[0], { city: "Rome" });
    assert.deepEqual(await answer.object, rome);
  });

  test("tools and then an object", async () => {
    const prompt = `${parallel(word("output"))} [[then]] [[text ${JSON.stringify(rome)}]]`;
    const { output } = await generateText(ask(prompt, { tools, output: Output.object({ schema: City }), stopWhen: isStepCount(3) }));
    assert.deepEqual(output, rome);
  });

  test("image, in several turns", async () => {
    const content = [{ type: "text", text: `${word("image")} [[text a pixel]]` }, { type: "image", image: pixel }];
    const question = { role: "user", content };
    const first = await generateText({ model, maxRetries: 0, messages: [question] });
    assert.equal(first.text, "a pixel");
    const messages = [question, ...first.response.messages, { role: "user", content: "why? [[text so]]" }];
    assert.equal((await generateText({ model, maxRetries: 0, instructions: "be short", messages })).text, "so");
    const [, turn] = await turns(word("image"));
    assert.ok([pixel, "a pixel", "why?", "be short"].every((w) => JSON.stringify(turn).includes(w)));
  });

  test("stop sequences", async () => {
    const options = ask("[[text Thought: ]] [[text look Obser]] [[text vation: none]]", { stopSequences: ["Observation:"] });
    assert.equal((await generateText(options)).text, "Thought: look ");
    assert.equal(await streamed(options).text, "Thought: look ");
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
    const fails = (options, statusCode, isRetryable, type) =>
      assert.rejects(generateText(options), (e) => {
        assert.ok(APICallError.isInstance(e), e.stack);
        assert.deepEqual([e.statusCode, e.isRetryable, e.data.error.type], [statusCode, isRetryable, type]);
        return true;
      });
    await fails(ask("x", { model: createAnthropic({ baseURL, apiKey: "sk-wrong" })(claude) }), 401, false, "authentication_error");
    await fails(ask("x", { model: provider("gpt-none") }), 404, false, "not_found_error");
    await fails(ask("[[error 429]]"), 429, true, "rate_limit_error");
    await fails(ask("[[error 503]]"), 529, true, "overloaded_error");
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
