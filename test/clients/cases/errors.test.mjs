import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { baseURL, client, model } from "./bed.mjs";

const chat = (c, prompt, more = {}) => c.chat.completions.create({ model, messages: [{ role: "user", content: prompt }], ...more });
const response = (c, prompt, more = {}) => c.responses.create({ model, input: prompt, ...more });
const apis = { chat, response };

const fails = (promise, constructor, want) =>
  assert.rejects(promise, (e) => {
    assert.equal(e.constructor, constructor, e.stack);
    for (const [key, value] of Object.entries(want)) assert.equal(e[key], value, key);
    assert.ok(e.requestID, "request id");
    return true;
  });

describe("openai: errors are the library's own classes", { concurrency: true }, () => {
  for (const [name, ask] of Object.entries(apis)) {
    for (const stream of [false, true]) {
      const more = { stream };
      test(`${name}, stream ${stream}`, { concurrency: true }, async (t) => {
        await Promise.all([
          t.test("400", () => fails(ask(client(), "x", { ...more, nonsense: 1 }), OpenAI.BadRequestError, { code: "unknown_parameter", param: "nonsense" })),
          t.test("400 of the model endpoint", () => fails(ask(client(), "[[error 400]]", more), OpenAI.BadRequestError, { code: "invalid_value" })),
          t.test("401", () => fails(ask(client({ apiKey: "sk-wrong" }), "x", more), OpenAI.AuthenticationError, { code: "invalid_api_key", type: "invalid_request_error" })),
          t.test("404", () => fails(ask(client(), "x", { ...more, model: "gpt-none" }), OpenAI.NotFoundError, { code: "model_not_found", param: "model" })),
          t.test("429", () => fails(ask(client(), "[[error 429]]", more), OpenAI.RateLimitError, { code: "rate_limited", type: "rate_limit_error" })),
          t.test("503", () => fails(ask(client(), "[[error 503]]", more), OpenAI.InternalServerError, { status: 503, code: "upstream_error" })),
        ]);
      });
    }
  }

  test("in a chat stream", async () => {
    const deltas = [];
    const broken = async () => {
      for await (const chunk of await chat(client(), "[[text so far]] [[drop]]", { stream: true })) deltas.push(chunk.choices[0]?.delta.content ?? "");
    };
    await assert.rejects(broken(), (e) => e instanceof OpenAI.APIError && e.code === "upstream_error");
    assert.equal(deltas.join(""), "so far");
  });

  // With its retries a client would wait two minutes for somebody to log in.
  test("no waiting for a person", () => fails(chat(client({ maxRetries: 2 }), "[[error 401]]"), OpenAI.InternalServerError, { code: "upstream_unauthorized" }));
  test("unknown path", () => fails(client({ baseURL: baseURL + "/none" }).models.list(), OpenAI.NotFoundError, { code: "not_found" }));
  test("nobody listens", () => assert.rejects(chat(client({ baseURL: "http://127.0.0.1:1/v1" }), "x"), OpenAI.APIConnectionError));
});
