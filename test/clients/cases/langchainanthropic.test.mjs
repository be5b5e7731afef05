import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ChatAnthropic } from "@langchain/anthropic";
import { createAgent, tool } from "langchain";
import { City, claude, cut, loop, origin, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

const llm = (more = {}) =>
  new ChatAnthropic({ model: claude, apiKey: process.env.API_KEY, anthropicApiUrl: origin, maxRetries: 0, maxTokens: 1024, ...more });
const getWeather = tool(({ city }) => `sunny in ${city}`, { name: "get_weather", description: weather.description, schema: weather.parameters });
const both = [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]];
const cities = (turn) => results(turn).map(([city, output]) => [city, typeof output === "string" ? output : output.map((p) => p.text).join("")]);

// all collects the chunks of a stream.
async function all(stream) {
  const chunks = [];
  for await (const c of stream) chunks.push(c);
  return chunks;
}

describe("LangChain: messages", { concurrency: true }, () => {
  test("whole, with usage", async () => {
    const answer = await llm().invoke([["system", "be short"], ["user", "[[text pa]] [[text ris]] [[usage 21 8 13 5]]"]]);
    assert.equal(answer.text, "paris");
    const { input_tokens, output_tokens, input_token_details } = answer.usage_metadata;
    assert.deepEqual([input_tokens, output_tokens, input_token_details.cache_read], [21, 13, 8]);
  });

  test("streamed, with usage", async () => {
    const chunks = await all(await llm().stream("[[text one ]] [[text two]] [[usage 21 8 13 5]]"));
    assert.deepEqual(chunks.map((c) => c.text).filter(Boolean), ["one ", "two"]);
    const whole = chunks.reduce((a, b) => a.concat(b));
    assert.equal(whole.usage_metadata.output_tokens, 13);
  });

  test("several tools at once, whole and streamed", async () => {
    const bound = llm().bindTools([getWeather]);
    const answer = await bound.invoke(parallel("lc-messages-whole"));
    assert.deepEqual(answer.tool_calls.map((c) => [c.name, c.args.city]), [["get_weather", "Paris"], ["get_weather", "Rome"]]);
    const chunks = await all(await bound.stream(parallel("lc-messages-stream")));
    assert.deepEqual(chunks.reduce((a, b) => a.concat(b)).tool_calls.map((c) => c.args.city), ["Paris", "Rome"]);
  });

  for (const streaming of [false, true]) {
    test(`an agent with a loop of three rounds and thinking, streaming ${streaming}`, async () => {
      const word = `lc-messages-agent-${streaming}`;
      const model = llm({ streaming, thinking: { type: "enabled", budget_tokens: 1024 }, maxTokens: 2048 });
      const agent = createAgent({ model, tools: [getWeather], systemPrompt: "use tools" });
      const { messages } = await agent.invoke({ messages: [{ role: "user", content: `[[reasoning hm]] ${loop(word)}` }] });
      assert.equal(messages.at(-1).text, "warm");
      const seen = await turns(word);
      assert.equal(seen.length, 3);
      assert.deepEqual(cities(seen[2]), [...both, ["Oslo", "sunny in Oslo"]]);
      assert.match(seen[2].input.find((i) => i.type === "reasoning").encrypted_content, /^encrypted-/);
    });
  }

  for (const [method, step] of Object.entries({ functionCalling: "call City", jsonSchema: "text" })) {
    test(`structured output, method ${method}`, async () => {
      const prompt = `[[${step} ${JSON.stringify(rome)}]]`;
      assert.deepEqual(await llm().withStructuredOutput(City, { name: "City", method }).invoke(prompt), rome);
    });
  }

  test("image", async () => {
    const content = [{ type: "text", text: "lc-messages-image [[text a pixel]]" }, { type: "image_url", image_url: { url: pixel } }];
    assert.equal((await llm().invoke([{ role: "user", content }])).text, "a pixel");
    assert.ok(JSON.stringify((await turns("lc-messages-image"))[0]).includes(pixel));
  });

  test("stop sequences", async () => {
    const answer = await llm({ stopSequences: ["Observation:"] }).invoke("[[text Thought: ]] [[text look Obser]] [[text vation: none]]");
    assert.equal(answer.text, "Thought: look ");
  });

  test("cancelled", async () => {
    const controller = new AbortController();
    await assert.rejects(async () => {
      for await (const chunk of await llm().stream("lc-messages-cancelled [[text so far]] [[silence]]", { signal: controller.signal })) {
        if (chunk.text) controller.abort();
      }
    });
    await cut("lc-messages-cancelled");
  });

  test("errors are those of Anthropic's library", async () => {
    const fails = (promise, status, type) => assert.rejects(promise, (e) => (assert.deepEqual([e.status, e.error.error.type], [status, type], e.stack), true));
    await fails(llm({ apiKey: "sk-wrong" }).invoke("x"), 401, "authentication_error");
    await fails(llm({ model: "gpt-none" }).invoke("x"), 404, "not_found_error");
    await fails(llm().invoke("[[error 429]]"), 429, "rate_limit_error");
    await fails(llm().invoke("[[error 503]]"), 529, "overloaded_error");
  });
});
