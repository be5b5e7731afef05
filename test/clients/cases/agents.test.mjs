import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  Agent, InputGuardrailTripwireTriggered, MaxTurnsExceededError, OpenAIProvider, OutputGuardrailTripwireTriggered, Runner, tool,
} from "@openai/agents";
import OpenAI from "openai";
import { City, client, cut, loop, model, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

const getWeather = tool({ name: "get_weather", ...weather, execute: ({ city }) => `sunny in ${city}` });
const user = (content) => [{ role: "user", content }];

for (const api of ["chat", "responses"]) {
  const runner = (options) =>
    new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client(options), useResponses: api === "responses" }), tracingDisabled: true });
  const run = (agent, input, options) => runner().run(agent, input, options);
  const agent = (more = {}) => new Agent({ name: "Helper", instructions: "be short", model, ...more });
  const word = (name) => `agents-${api}-${name}`;

  describe(`Agents SDK: ${api}`, { concurrency: true }, () => {
    test("whole, with usage", async () => {
      const result = await run(agent(), "[[text pa]] [[text ris]] [[usage 21 8 13 5]]");
      assert.equal(result.finalOutput, "paris");
      assert.equal(result.state.usage.totalTokens, 34);
    });

    test("a loop of tools in three rounds", async () => {
      const result = await run(agent({ tools: [getWeather] }), loop(word("loop")));
      assert.equal(result.finalOutput, "warm");
      const seen = await turns(word("loop"));
      assert.equal(seen.length, 3);
      assert.ok(seen.every((turn) => JSON.stringify(turn).includes("be short")));
      assert.deepEqual(results(seen[2]), [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"], ["Oslo", "sunny in Oslo"]]);
    });

    test("a streamed loop", async () => {
      const result = await run(agent({ tools: [getWeather] }), loop(word("streamed")), { stream: true });
      const texts = [], items = [];
      for await (const e of result) {
        if (e.type === "raw_model_stream_event" && e.data.type === "output_text_delta") texts.push(e.data.delta);
        if (e.type === "run_item_stream_event") items.push(e.name);
      }
      assert.deepEqual(texts, ["wa", "rm"]);
      assert.equal(result.finalOutput, "warm");
      assert.equal(items.filter((i) => i === "tool_output").length, 3);
    });

    for (const stream of [false, true]) {
      test(`a handoff, stream ${stream}`, async () => {
        const expert = agent({ name: "Expert", instructions: "know the weather", tools: [getWeather] });
        const triage = agent({ name: "Triage", instructions: "hand off", handoffs: [expert] });
        const prompt = `${word("handoff")}-${stream} [[call transfer_to_Expert]] [[then]] [[call get_weather {"city":"Oslo"}]] [[then]] [[text cold]]`;
        const result = await run(triage, prompt, { stream });
        if (stream) await result.completed;
        assert.equal(result.finalOutput, "cold");
        assert.equal(result.lastAgent.name, "Expert");
        const seen = await turns(`${word("handoff")}-${stream}`);
        assert.deepEqual(seen.map((t) => t.tools.map((f) => f.name)), [["transfer_to_Expert"], ["get_weather"], ["get_weather"]]);
        assert.ok(JSON.stringify(seen[0]).includes("hand off") && JSON.stringify(seen[1]).includes("know the weather"));
      });
    }

    test("an agent as a tool of another", async () => {
      const inner = agent({ name: "Translator", instructions: "translate" });
      const outer = agent({ tools: [inner.asTool({ toolName: "translate", toolDescription: "translates" })] });
      const input = JSON.stringify({ input: "inner prompt" });
      const result = await run(outer, `${word("nested")} [[call translate ${input}]] [[then]] [[text done]]`);
      assert.equal(result.finalOutput, "done");
      assert.ok(JSON.stringify((await turns(word("nested")))[1].input).includes("hello from the model server"));
    });

    test("structured output", async () => {
      const result = await run(agent({ outputType: City }), `${word("schema")} [[text ${JSON.stringify(rome)}]]`);
      assert.deepEqual(result.finalOutput, rome);
      const [turn] = await turns(word("schema"));
      assert.equal(turn.text.format.type, "json_schema");
      assert.deepEqual(Object.keys(turn.text.format.schema.properties), ["city", "population"]);
    });

    test("image", async () => {
      const content = [{ type: "input_text", text: `${word("image")} [[text a pixel]]` }, { type: "input_image", image: pixel }];
      assert.equal((await run(agent(), user(content))).finalOutput, "a pixel");
      const [turn] = await turns(word("image"));
      assert.equal(turn.input.at(-1).content.find((p) => p.type === "input_image").image_url, pixel);
    });

    test("several turns by the history", async () => {
      const first = await run(agent({ tools: [getWeather] }), `${parallel(word("history"))} [[then]] [[text warm]]`);
      const second = await run(agent({ tools: [getWeather] }), [...first.history, ...user("and now? [[text still]]")]);
      assert.equal(second.finalOutput, "still");
      const last = (await turns(word("history"))).at(-1);
      assert.deepEqual(results(last), [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]]);
      assert.ok(JSON.stringify(last.input).includes('"warm"'));
    });

    test("guardrails of the input and of the output", async () => {
      const trip = { name: "trip", execute: async () => ({ outputInfo: "no", tripwireTriggered: true }) };
      const asked = word("guarded");
      await assert.rejects(run(agent({ inputGuardrails: [{ ...trip, runInParallel: false }] }), asked), InputGuardrailTripwireTriggered);
      assert.equal((await turns(asked)).length, 0);
      await assert.rejects(run(agent({ outputGuardrails: [trip] }), "[[text bad]]"), OutputGuardrailTripwireTriggered);
    });

    test("too many turns", async () => {
      const prompt = loop(word("turns"));
      await assert.rejects(run(agent({ tools: [getWeather] }), prompt, { maxTurns: 2 }), MaxTurnsExceededError);
    });

    test("tool_choice of a function is asked for", async () => {
      const chosen = agent({ tools: [getWeather], modelSettings: { toolChoice: "get_weather" } });
      const result = await run(chosen, `${word("choice")} [[call get_weather {"city":"Oslo"}]] [[then]] [[text cold]]`);
      assert.equal(result.finalOutput, "cold");
      assert.ok(JSON.stringify((await turns(word("choice")))[0].input).includes("get_weather"));
    });

    test("cancelled", async () => {
      const controller = new AbortController();
      const result = await run(agent(), `${word("cancelled")} [[text so far]] [[silence]]`, { stream: true, signal: controller.signal });
      for await (const e of result) if (e.type === "raw_model_stream_event" && e.data.type === "output_text_delta") controller.abort();
      await cut(word("cancelled"));
    });

    test("errors are those of the openai library", async () => {
      const fails = (prompt, constructor, code, options) =>
        assert.rejects(runner(options).run(agent(), prompt), (e) => (assert.equal(e.constructor, constructor, e.stack), assert.equal(e.code, code), true));
      await fails("x", OpenAI.AuthenticationError, "invalid_api_key", { apiKey: "sk-wrong" });
      await fails("[[error 429]]", OpenAI.RateLimitError, "rate_limited");
      await fails("[[error 503]]", OpenAI.InternalServerError, "upstream_error");
    });

    test("a stream that fails in the middle", async () => {
      const texts = [];
      await assert.rejects(async () => {
        const result = await run(agent(), "[[text so far]] [[drop]]", { stream: true });
        for await (const e of result) if (e.type === "raw_model_stream_event" && e.data.type === "output_text_delta") texts.push(e.data.delta);
        await result.completed;
      });
      assert.deepEqual(texts, ["so far"]);
    });
  });
}

describe("Agents SDK: responses alone", { concurrency: true }, () => {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client(), useResponses: true }), tracingDisabled: true });

  test("several turns by previousResponseId", async () => {
    const agent = new Agent({ name: "Helper", model });
    const first = await runner.run(agent, "agents-previous-1 [[text one]]");
    const second = await runner.run(agent, "agents-previous-2 [[text two]]", { previousResponseId: first.lastResponseId });
    assert.equal(second.finalOutput, "two");
    assert.ok(JSON.stringify((await turns("agents-previous-2"))[0].input).includes("agents-previous-1"));
  });

  test("reasoning", async () => {
    const agent = new Agent({ name: "Thinker", model, modelSettings: { reasoning: { effort: "low", summary: "auto" } } });
    const result = await runner.run(agent, "[[reasoning because]] [[text so]]");
    const item = result.newItems.find((i) => i.type === "reasoning_item");
    assert.equal(item.rawItem.content[0].text, "because");
  });
});
