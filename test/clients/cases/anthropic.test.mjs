import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { City, anthropic as client, claude, cut, loop, model, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

const user = (content) => [{ role: "user", content }];
const ask = (prompt, more = {}) => ({ model: claude, max_tokens: 1024, messages: user(prompt), ...more });
const create = (prompt, more) => client().messages.create(ask(prompt, more));
const tools = [{ name: "get_weather", description: weather.description, input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }];
const both = [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]];
const text = (message) => message.content.filter((b) => b.type === "text").map((b) => b.text).join("");

describe("@anthropic-ai/sdk", { concurrency: true }, () => {
  test("whole, with usage", async () => {
    const m = await create("[[text pa]] [[text ris]] [[usage 21 8 13 5]]", { system: "be short" });
    assert.deepEqual([m.type, m.role, m.model, m.stop_reason, m.stop_sequence], ["message", "assistant", claude, "end_turn", null]);
    assert.match(m.id, /^msg_/);
    assert.deepEqual(m.content.map((b) => [b.type, b.text]), [["text", "paris"]]);
    const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens } = m.usage;
    assert.deepEqual([input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens], [13, 8, 0, 13]);
    assert.match(m._request_id, /./);
  });

  test("system, and several turns", async () => {
    const messages = [...user("anthropic-turns one"), { role: "assistant", content: "two" }, ...user("three [[text four]]")];
    assert.equal(text(await create("", { system: [{ type: "text", text: "be short" }], messages })), "four");
    const sent = JSON.stringify((await turns("anthropic-turns"))[0]);
    assert.ok(["be short", "one", '"two"', "three"].every((word) => sent.includes(word)), sent);
  });

  test("the streaming helper", async () => {
    const texts = [], thoughts = [], events = [];
    const stream = client().messages.stream(ask("[[reasoning be]] [[reasoning cause]] [[text one ]] [[text two]] [[usage 21 8 13 5]]", { thinking: { type: "adaptive" } }));
    stream.on("text", (delta) => texts.push(delta)).on("thinking", (delta) => thoughts.push(delta)).on("streamEvent", (e) => events.push(e.type));
    const m = await stream.finalMessage();
    assert.deepEqual([texts, thoughts], [["one ", "two"], ["be", "cause"]]);
    assert.deepEqual(m.content.map((b) => b.type), ["thinking", "text"]);
    assert.equal(m.content[0].thinking, "because");
    assert.ok(m.content[0].signature);
    assert.equal(await stream.finalText(), "one two");
    assert.deepEqual([m.stop_reason, m.usage.input_tokens, m.usage.cache_read_input_tokens, m.usage.output_tokens], ["end_turn", 13, 8, 13]);
    assert.deepEqual([events[0], ...events.slice(-2)], ["message_start", "message_delta", "message_stop"]);
  });

  test("the streaming helper with tools", async () => {
    const inputs = [];
    const stream = client().messages.stream(ask(parallel("anthropic-stream"), { tools }));
    stream.on("inputJson", (_, snapshot) => inputs.push(snapshot));
    const m = await stream.finalMessage();
    assert.equal(m.stop_reason, "tool_use");
    assert.deepEqual(m.content.map((b) => [b.type, b.name, b.input.city]), [["tool_use", "get_weather", "Paris"], ["tool_use", "get_weather", "Rome"]]);
    assert.deepEqual(inputs.at(-1), { city: "Rome" });
  });

  test("a stream arrives before its end", async () => {
    let seen = "";
    for await (const e of await create("anthropic-early [[text early]] [[gate anthropic-early]] [[text late]]", { stream: true })) {
      seen += e.delta?.text ?? "";
      if (seen === "early") await fetch("http://127.0.0.1:18080/_gates/anthropic-early", { method: "POST" });
    }
    assert.equal(seen, "earlylate");
  });

  // The thinking of an answer comes back with the results of its tools: codex gets its own reasoning.
  test("two parallel tools with thinking, results with an image and an error", async () => {
    const messages = user(`[[reasoning hm]] ${parallel("anthropic-tools")} [[then]] [[text warm]]`);
    const more = { tools, thinking: { type: "enabled", budget_tokens: 1024 } };
    const first = await create("", { messages, ...more });
    assert.deepEqual(first.content.map((b) => b.type), ["thinking", "tool_use", "tool_use"]);
    const [paris, oslo] = first.content.filter((b) => b.type === "tool_use");
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: pixel.split(",")[1] } };
    messages.push({ role: "assistant", content: first.content }, ...user([
      { type: "tool_result", tool_use_id: paris.id, content: [{ type: "text", text: "see" }, image] },
      { type: "tool_result", tool_use_id: oslo.id, is_error: true, content: "no such city" },
    ]));
    assert.equal(text(await create("", { messages, ...more })), "warm");
    const { input } = (await turns("anthropic-tools"))[1];
    const outputs = input.filter((i) => i.type === "function_call_output").map((i) => JSON.stringify(i.output));
    assert.ok(outputs[0].includes(pixel) && outputs[0].includes("see"), outputs[0]);
    assert.match(outputs[1], /no such city/);
    assert.match(input.find((i) => i.type === "reasoning").encrypted_content, /^encrypted-/);
  });

  for (const stream of [false, true]) {
    test(`the tool runner, stream ${stream}`, async () => {
      const word = `anthropic-runner-${stream}`;
      const tool = betaZodTool({ name: "get_weather", description: weather.description, inputSchema: weather.parameters, run: ({ city }) => `sunny in ${city}` });
      const runner = client().beta.messages.toolRunner(ask(loop(word), { tools: [tool], stream }));
      assert.equal(text(await runner), "warm");
      const seen = await turns(word);
      assert.equal(seen.length, 3);
      assert.deepEqual(results(seen[2]), [...both, ["Oslo", "sunny in Oslo"]]);
    });
  }

  test("structured output", async () => {
    const format = { output_config: { format: zodOutputFormat(City) } };
    const m = await client().messages.parse(ask(`anthropic-schema [[text ${JSON.stringify(rome)}]]`, format));
    assert.deepEqual(m.parsed_output, rome);
    const [turn] = await turns("anthropic-schema");
    assert.equal(turn.text.format.type, "json_schema");
  });

  test("image", async () => {
    const source = { type: "base64", media_type: "image/png", data: pixel.split(",")[1] };
    assert.equal(text(await create([{ type: "image", source }, { type: "text", text: "anthropic-image [[text a pixel]]" }])), "a pixel");
    const [turn] = await turns("anthropic-image");
    assert.equal(turn.input.flatMap((i) => i.content ?? []).find((p) => p.type === "input_image").image_url, pixel);
  });

  for (const stream of [false, true]) {
    test(`a stop sequence, stream ${stream}`, async () => {
      const asked = ask("[[text Thought: ]] [[text look Obser]] [[text vation: none]]", { stop_sequences: ["Observation:"] });
      const m = stream ? await client().messages.stream(asked).finalMessage() : await client().messages.create(asked);
      assert.deepEqual([text(m), m.stop_reason, m.stop_sequence], ["Thought: look ", "stop_sequence", "Observation:"]);
    });
  }

  test("cut short", async () => {
    const m = await create("[[text par]] [[incomplete max_output_tokens]]");
    assert.deepEqual([text(m), m.stop_reason], ["par", "max_tokens"]);
  });

  test("countTokens", async () => {
    const count = (prompt, more) => client().messages.countTokens({ model: claude, messages: user(prompt), ...more });
    const few = await count("Hello");
    const many = await count("Hello ".repeat(1000), { tools, system: "be short" });
    assert.ok(few.input_tokens > 0 && few.input_tokens < 1000 && many.input_tokens > few.input_tokens + 900, `${few.input_tokens}, ${many.input_tokens}`);
  });

  test("models", async () => {
    const ids = [];
    for await (const m of client().models.list()) {
      assert.deepEqual([m.type, typeof m.display_name, Number.isNaN(Date.parse(m.created_at))], ["model", "string", false]);
      ids.push(m.id);
    }
    assert.ok(ids.includes(model), `${ids}`);
    assert.equal((await client().models.retrieve(model)).id, model);
  });

  test("authToken, which goes as Bearer", async () => {
    assert.equal(text(await client({ apiKey: null, authToken: process.env.API_KEY }).messages.create(ask("[[text yes]]"))), "yes");
  });

  test("x-api-key", async () => {
    const c = client({ apiKey: "sk-none", defaultHeaders: { "x-api-key": process.env.API_KEY, authorization: null } });
    assert.equal(text(await c.messages.create(ask("[[text yes]]"))), "yes");
  });

  test("an abandoned stream interrupts the turn", async () => {
    const stream = client().messages.stream(ask("anthropic-abandoned [[text so far]] [[silence]]"));
    stream.on("text", () => stream.abort());
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    await cut("anthropic-abandoned");
  });
});

describe("@anthropic-ai/sdk: errors are the library's own classes", { concurrency: true }, () => {
  const fails = (promise, constructor, status, type, message = /./) =>
    assert.rejects(promise, (e) => {
      assert.equal(e.constructor, constructor, e.stack);
      assert.deepEqual([e.status, e.type], [status, type], e.stack);
      assert.match(e.apiMessage, message);
      assert.ok(e.requestID, "request id");
      return true;
    });
  for (const stream of [false, true]) {
    test(`stream ${stream}`, { concurrency: true }, async (t) => {
      const from = (prompt, more, c = client()) => c.messages.create(ask(prompt, { stream, ...more }));
      await Promise.all([
        t.test("400", () => fails(from("x", { max_tokens: -1 }), Anthropic.BadRequestError, 400, "invalid_request_error", /max_tokens/)),
        t.test("401", () => fails(from("x", {}, client({ apiKey: "sk-wrong" })), Anthropic.AuthenticationError, 401, "authentication_error")),
        t.test("404", () => fails(from("x", { model: "gpt-none" }), Anthropic.NotFoundError, 404, "not_found_error", /\[models\.aliases\] in \/etc\/codex-proxy\/config\.toml/)),
        t.test("429", () => fails(from("[[error 429]]"), Anthropic.RateLimitError, 429, "rate_limit_error")),
        t.test("503 is 529", () => fails(from("[[error 503]]"), Anthropic.OverloadedError, 529, "overloaded_error")),
      ]);
    });
  }

  test("a stream that fails in the middle", async () => {
    let seen = "";
    const broken = async () => {
      for await (const e of await create("[[text so far]] [[drop]]", { stream: true })) seen += e.delta?.text ?? "";
    };
    await assert.rejects(broken(), (e) => e instanceof Anthropic.APIError && /_error$/.test(e.type));
    assert.equal(seen, "so far");
  });

  test("a path that does not exist", () => fails(client().get("/v1/messages/none"), Anthropic.NotFoundError, 404, "not_found_error"));
});
