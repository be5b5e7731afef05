import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { City, client, model, parallel, pixel, results, rome, turns, weather } from "./bed.mjs";

describe("openai: responses", { concurrency: true }, () => {
  test("whole", async () => {
    const r = await client().responses.create({ model, input: "[[text pa]] [[text ris]] [[usage 21 8 13 5]]" });
    assert.equal(r.output_text, "paris");
    assert.equal(r.status, "completed");
    assert.equal(r.usage.total_tokens, 34);
  });

  test("the streaming helper", async () => {
    const deltas = [];
    const stream = client().responses.stream({ model, input: "[[reasoning why]] [[text one ]] [[text two]]" });
    stream.on("response.output_text.delta", (e) => deltas.push(e.delta));
    const r = await stream.finalResponse();
    assert.deepEqual(deltas, ["one ", "two"]);
    assert.equal(r.output_text, "one two");
    assert.equal(r.output.at(-1).type, "message");
  });

  test("the streaming helper with tools", async () => {
    const tools = [zodResponsesFunction({ name: "get_weather", ...weather })];
    const r = await client().responses.stream({ model, input: parallel("responses-stream"), tools }).finalResponse();
    assert.deepEqual(r.output.filter((i) => i.type === "function_call").map((i) => i.parsed_arguments.city), ["Paris", "Rome"]);
  });

  for (const how of ["items", "previous_response_id"]) {
    test(`two parallel tools, continued by ${how}`, async () => {
      const word = `responses-tools-${how}`;
      const tools = [zodResponsesFunction({ name: "get_weather", ...weather })];
      const input = [{ role: "user", content: parallel(word) }];
      const first = await client().responses.create({ model, input, tools, store: how !== "items" });
      const outputs = first.output
        .filter((i) => i.type === "function_call")
        .map((c) => ({ type: "function_call_output", call_id: c.call_id, output: `sunny in ${JSON.parse(c.arguments).city}` }));
      const again = how === "items" ? { input: [...input, ...first.output, ...outputs] } : { input: outputs, previous_response_id: first.id };
      const second = await client().responses.create({ model, tools, ...again });
      assert.equal(second.output_text, "hello from the model server");
      const seen = await turns(word);
      assert.equal(seen.length, 2);
      assert.deepEqual(results(seen[1]), [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]]);
    });
  }

  test("a chain of previous_response_id", async () => {
    const c = client();
    let previous;
    for (const n of [1, 2, 3]) {
      const r = await c.responses.create({ model, input: `chain-${n} [[text answer ${n}]]`, store: true, previous_response_id: previous });
      assert.equal(r.previous_response_id ?? undefined, previous);
      previous = r.id;
    }
    const sent = JSON.stringify((await turns("chain-3"))[0].input);
    const places = ["chain-1", '"answer 1"', "chain-2", '"answer 2"', "chain-3"].map((w) => sent.indexOf(w));
    assert.ok(places[0] >= 0);
    assert.deepEqual(places, [...places].sort((a, b) => a - b));

    const kept = await c.responses.retrieve(previous);
    assert.equal(kept.output_text, "answer 3");
    await c.responses.delete(previous);
    await assert.rejects(c.responses.retrieve(previous), OpenAI.NotFoundError);
    await assert.rejects(c.responses.create({ model, input: "x", previous_response_id: previous }), (e) => e instanceof OpenAI.APIError && [400, 404].includes(e.status));
  });

  test("structured output", async () => {
    const r = await client().responses.parse({ model, input: `responses-schema [[text ${JSON.stringify(rome)}]]`, text: { format: zodTextFormat(City, "city") } });
    assert.deepEqual(r.output_parsed, rome);
    assert.equal((await turns("responses-schema"))[0].text.format.type, "json_schema");
  });

  test("image", async () => {
    const content = [{ type: "input_text", text: "responses-image [[text a pixel]]" }, { type: "input_image", image_url: pixel, detail: "auto" }];
    const r = await client().responses.create({ model, input: [{ role: "user", content }] });
    assert.equal(r.output_text, "a pixel");
    const [turn] = await turns("responses-image");
    assert.equal(turn.input.at(-1).content.find((p) => p.type === "input_image").image_url, pixel);
  });

  test("a stream that fails", async () => {
    let text = "";
    const broken = async () => {
      const stream = await client().responses.create({ model, input: "[[text so far]] [[drop]]", stream: true });
      for await (const e of stream) text += e.type === "response.output_text.delta" ? e.delta : "";
    };
    await assert.rejects(broken(), (e) => e instanceof OpenAI.APIError && e.code === "server_error" && /model endpoint/.test(e.message));
    assert.equal(text, "so far");
  });

  test("cut short", async () => {
    const r = await client().responses.create({ model, input: "[[text par]] [[incomplete max_output_tokens]]" });
    assert.equal(r.status, "incomplete");
    assert.equal(r.incomplete_details.reason, "max_output_tokens");
    assert.equal(r.output_text, "par");
  });
});
