import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { City, client, cut, model, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

const ask = (content, more = {}) => ({ model, messages: [{ role: "user", content }], ...more });

describe("openai: chat completions", { concurrency: true }, () => {
  test("whole", async () => {
    const c = await client().chat.completions.create(ask("[[text pa]] [[text ris 🙂]] [[usage 21 8 13 5]]"));
    assert.equal(c.choices[0].message.content, "paris 🙂");
    assert.equal(c.choices[0].finish_reason, "stop");
    assert.equal(c.usage.total_tokens, 34);
    assert.equal(c.usage.prompt_tokens_details.cached_tokens, 8);
  });

  test("streamed", async () => {
    const deltas = [];
    const stream = client().chat.completions.stream(ask("[[text one ]] [[text two]]", { stream_options: { include_usage: true } }));
    stream.on("content", (delta) => deltas.push(delta));
    const c = await stream.finalChatCompletion();
    assert.deepEqual(deltas, ["one ", "two"]);
    assert.equal(c.choices[0].message.content, "one two");
    assert.equal((await stream.totalUsage()).total_tokens, 15);
  });

  for (const stream of [false, true]) {
    test(`two parallel tools, stream ${stream}`, async () => {
      const word = `chat-tools-${stream}`;
      const runner = client().chat.completions.runTools(
        ask(parallel(word), {
          stream,
          tools: [zodFunction({ name: "get_weather", ...weather, function: ({ city }) => `sunny in ${city}` })],
        }),
      );
      assert.equal(await runner.finalContent(), "hello from the model server");
      const [first, second, ...rest] = await turns(word);
      assert.equal(rest.length, 0);
      assert.equal(first.tools.length, 1);
      assert.equal(first.tools[0].name, "get_weather");
      assert.deepEqual(results(second), [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]]);
    });
  }

  test("structured output", async () => {
    const c = await client().chat.completions.parse(
      ask(`chat-schema [[text ${JSON.stringify(rome)}]]`, { response_format: zodResponseFormat(City, "city") }),
    );
    assert.deepEqual(c.choices[0].message.parsed, rome);
    const [turn] = await turns("chat-schema");
    assert.equal(turn.text.format.type, "json_schema");
    assert.deepEqual(Object.keys(turn.text.format.schema.properties), ["city", "population"]);
  });

  test("structured output cut short", async () => {
    const request = ask('[[text {"city":]] [[incomplete max_output_tokens]]', { response_format: zodResponseFormat(City, "city") });
    await assert.rejects(client().chat.completions.parse(request), OpenAI.LengthFinishReasonError);
  });

  test("image", async () => {
    const c = await client().chat.completions.create(
      ask([{ type: "text", text: "chat-image [[text a pixel]]" }, { type: "image_url", image_url: { url: pixel } }]),
    );
    assert.equal(c.choices[0].message.content, "a pixel");
    const [turn] = await turns("chat-image");
    assert.equal(turn.input.at(-1).content.find((p) => p.type === "input_image").image_url, pixel);
  });

  test("closed by the client", async () => {
    const stream = await client().chat.completions.create(ask("chat-closed [[text so far]] [[silence]]", { stream: true }));
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break; // which aborts the request
    }
    await cut("chat-closed");
  });
});
