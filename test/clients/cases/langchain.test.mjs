import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ContextOverflowError } from "@langchain/core/errors";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, providerStrategy, tool, toolStrategy } from "langchain";
import { City, baseURL, cut, loop, model, parallel, pixel, results, rome, thinker, turns, weather } from "./bed.mjs";

const llm = (more = {}) =>
  new ChatOpenAI({ model, apiKey: process.env.API_KEY, configuration: { baseURL }, maxRetries: 0, timeout: 120_000, ...more });

const getWeather = tool(({ city }) => `sunny in ${city}`, { name: "get_weather", description: weather.description, schema: weather.parameters });
const assertBoth = (turn) => assert.deepEqual(results(turn), [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]]);

// all collects the chunks of a stream.
async function all(stream) {
  const chunks = [];
  for await (const c of stream) chunks.push(c);
  return chunks;
}

for (const useResponsesApi of [false, true]) {
  const api = useResponsesApi ? "responses" : "chat";
  const of = (more = {}) => llm({ useResponsesApi, ...more });

  describe(`LangChain: ${api}`, { concurrency: true }, () => {
    test("whole, with usage", async () => {
      const answer = await of().invoke([["system", "be short"], ["user", "[[text pa]] [[text ris]] [[usage 21 8 13 5]]"]]);
      assert.equal(answer.text, "paris");
      assert.deepEqual([answer.usage_metadata.input_tokens, answer.usage_metadata.output_tokens, answer.usage_metadata.total_tokens], [21, 13, 34]);
      assert.equal(answer.usage_metadata.input_token_details.cache_read, 8);
    });

    test("streamed, with usage", async () => {
      const chunks = await all(await of().stream("[[text one ]] [[text two]] [[usage 21 8 13 5]]"));
      assert.deepEqual(chunks.map((c) => c.text).filter(Boolean), ["one ", "two"]);
      const whole = chunks.reduce((a, b) => a.concat(b));
      assert.equal(whole.usage_metadata.total_tokens, 34);
    });

    test("a chain with a prompt and several turns", async () => {
      const word = `lc-${api}-turns`;
      const chain = ChatPromptTemplate.fromMessages([["system", "be {how}"], ["placeholder", "{history}"], ["user", "{question}"]]).pipe(of());
      const first = await chain.invoke({ how: "brief", history: [], question: `${word} [[text Paris]]` });
      const second = await chain.invoke({ how: "brief", history: [["user", word], first], question: "why? [[text so]]" });
      assert.equal(second.text, "so");
      const sent = JSON.stringify((await turns(word))[1]);
      const places = ["be brief", word, '"Paris"', "why?"].map((w) => sent.indexOf(w));
      assert.ok(places.every((p) => p >= 0), `${places} in ${sent}`);
    });

    test("batch", async () => {
      const answers = await of().batch(["[[text a]]", "[[text b]]", "[[text c]]"]);
      assert.deepEqual(answers.map((a) => a.text), ["a", "b", "c"]);
    });

    test("several tools at once", async () => {
      const answer = await of().bindTools([getWeather]).invoke(parallel(`lc-${api}-bind-whole`));
      assert.deepEqual(answer.tool_calls.map((c) => [c.name, c.args.city]), [["get_weather", "Paris"], ["get_weather", "Rome"]]);
      assert.equal(new Set(answer.tool_calls.map((c) => c.id)).size, 2);
    });

    test("tool calls of a stream", async () => {
      const chunks = await all(await of().bindTools([getWeather]).stream(parallel(`lc-${api}-bind-stream`)));
      const whole = chunks.reduce((a, b) => a.concat(b));
      assert.deepEqual(whole.tool_calls.map((c) => c.args.city), ["Paris", "Rome"]);
    });

    test("an agent with a loop of three rounds", async () => {
      const word = `lc-${api}-agent-loop`;
      const agent = createAgent({ model: of(), tools: [getWeather], systemPrompt: "use tools" });
      const { messages } = await agent.invoke({ messages: [{ role: "user", content: loop(word) }] });
      assert.equal(messages.at(-1).text, "warm");
      const seen = await turns(word);
      assert.equal(seen.length, 3);
      assertBoth(seen[1]);
      assert.deepEqual(results(seen[2]).at(-1), ["Oslo", "sunny in Oslo"]);
    });

    test("an agent's stream of messages", async () => {
      const agent = createAgent({ model: of({ streaming: true }), tools: [getWeather] });
      const texts = [];
      for await (const [chunk] of await agent.stream({ messages: [{ role: "user", content: loop(`lc-${api}-agent-stream`) }] }, { streamMode: "messages" })) {
        if (chunk.type === "ai" && chunk.text) texts.push(chunk.text);
      }
      assert.deepEqual(texts, ["wa", "rm"]);
    });

    for (const [name, strategy] of Object.entries({ providerStrategy, toolStrategy })) {
      test(`an agent's answer by ${name}`, async () => {
        const word = `lc-${api}-${name}`;
        const json = JSON.stringify(rome);
        const last = name === "toolStrategy" ? `[[call extract-1 ${json}]]` : `[[text ${json}]]`;
        const format = name === "toolStrategy" ? toolStrategy({ title: "extract-1", ...jsonSchema }) : providerStrategy(City);
        const agent = createAgent({ model: of(), tools: [getWeather], responseFormat: format });
        const { structuredResponse } = await agent.invoke({ messages: [{ role: "user", content: `${parallel(word)} [[then]] ${last}` }] });
        assert.deepEqual(structuredResponse, rome);
        assertBoth((await turns(word))[1]);
      });
    }

    for (const method of [undefined, "jsonSchema", "functionCalling", "jsonMode"]) {
      test(`structured output, method ${method ?? "by default"}`, async () => {
        const word = `lc-${api}-schema-${method}`;
        const json = JSON.stringify(rome);
        const prompt = `${word} [[${method === "functionCalling" ? "call city" : "text"} ${json}]]`;
        assert.deepEqual(await of().withStructuredOutput(City, { name: "city", method }).invoke(prompt), rome);
        const [turn] = await turns(word);
        if (!method || method === "jsonSchema") {
          assert.equal(turn.text.format.type, "json_schema");
          assert.deepEqual(Object.keys(turn.text.format.schema.properties), ["city", "population"]);
        }
      });
    }

    test("image", async () => {
      const word = `lc-${api}-image`;
      const content = [{ type: "text", text: `${word} [[text a pixel]]` }, { type: "image_url", image_url: { url: pixel } }];
      assert.equal((await of().invoke([{ role: "user", content }])).text, "a pixel");
      const [turn] = await turns(word);
      assert.equal(turn.input.at(-1).content.find((p) => p.type === "input_image").image_url, pixel);
    });

    test("cancelled", async () => {
      const word = `lc-${api}-cancelled`;
      const controller = new AbortController();
      const reading = (async () => {
        for await (const c of await of().stream(`${word} [[text so far]] [[silence]]`, { signal: controller.signal })) if (c.text) controller.abort();
      })();
      await assert.rejects(reading, /abort/i);
      await cut(word);
    });

    test("errors have LangChain's codes", async () => {
      const code = (want) => (e) => (assert.equal(e.lc_error_code, want, e.stack), true);
      await assert.rejects(of({ apiKey: "sk-wrong" }).invoke("x"), code("MODEL_AUTHENTICATION"));
      await assert.rejects(of({ model: "gpt-none" }).invoke("x"), code("MODEL_NOT_FOUND"));
      await assert.rejects(of().invoke("[[error 429]]"), code("MODEL_RATE_LIMIT"));
    });

    for (const how of ["invoke", "stream"]) {
      test(`a context overflow is LangChain's, ${how}`, async () => {
        for (const script of ["[[failed context_length_exceeded too long]]", '[[error 400 {"error":{"message":"too long","code":"context_length_exceeded"}}]]']) {
          await assert.rejects(async () => {
            const answer = await of()[how](script);
            if (how === "stream") await all(answer);
          }, (e) => (assert.ok(ContextOverflowError.isInstance(e), e.stack), true));
        }
      });
    }

    test("a stream that fails in the middle", async () => {
      const texts = [];
      await assert.rejects(async () => {
        for await (const c of await of().stream("[[text so far]] [[drop]]")) texts.push(c.text);
      });
      assert.equal(texts.join(""), "so far");
    });
  });
}

const jsonSchema = {
  type: "object",
  properties: { city: { type: "string" }, population: { type: "integer" } },
  required: ["city", "population"],
  additionalProperties: false,
};

describe("LangChain: more", { concurrency: true }, () => {
  test("stop", async () => {
    const options = { stop: ["Observation:"] };
    const prompt = "[[text Thought: ]] [[text look Obser]] [[text vation: none]]";
    assert.equal((await llm().invoke(prompt, options)).text, "Thought: look ");
    const texts = (await all(await llm().stream(prompt, options))).map((c) => c.text);
    assert.equal(texts.join(""), "Thought: look ");
    assert.ok(texts.includes("Thought: "), texts);
  });

  test("reasoning of chat completions", async () => {
    const answer = await llm({ modelKwargs: { reasoning: { summary: "auto" } } }).invoke("[[reasoning because]] [[text so]]");
    assert.equal(answer.additional_kwargs.reasoning_content, "because");
  });

  test("reasoning of responses", async () => {
    // LangChain sends `reasoning` for the names of models that it knows to reason.
    const answer = await llm({ model: thinker, useResponsesApi: true, reasoning: { effort: "low", summary: "auto" } }).invoke("[[reasoning because]] [[text so]]");
    assert.equal(answer.additional_kwargs.reasoning.summary[0].text, "because");
  });

  test("a chain of previous_response_id", async () => {
    const of = llm({ useResponsesApi: true, useResponsesApiStore: true });
    const first = await of.invoke("lc-previous-1 [[text one]]", { store: true });
    const second = await of.invoke("lc-previous-2 [[text two]]", { previous_response_id: first.response_metadata.id });
    assert.equal(second.text, "two");
    assert.ok(JSON.stringify((await turns("lc-previous-2"))[0].input).includes("lc-previous-1"));
  });
});
