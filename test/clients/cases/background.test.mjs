import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { client, cut, model, turns, until, weather } from "./bed.mjs";

const release = (gate) => fetch(`http://127.0.0.1:18080/_gates/${gate}`, { method: "POST" });
const begin = (input, more = {}) => client().responses.create({ model, input, background: true, ...more });
const got = (id) => client().responses.retrieve(id);

// all collects the events of a stream, which begins after the number.
async function all(id, starting_after) {
  const events = [];
  for await (const e of await client().responses.retrieve(id, { stream: true, starting_after })) events.push(e);
  return events;
}

describe("openai: background responses", { concurrency: true }, () => {
  test("polled", async () => {
    const word = "background-polled";
    const begun = await begin(`${word} [[gate ${word}]] [[text done]] [[usage 21 8 13 5]]`);
    assert.ok(["queued", "in_progress"].includes(begun.status), begun.status);
    assert.deepEqual([begun.background, begun.output], [true, []]);
    await until(async () => (await got(begun.id)).status === "in_progress" && (await turns(word)).length === 1);
    await release(word);
    await until(async () => (await got(begun.id)).status === "completed");
    const ended = await got(begun.id);
    assert.deepEqual([ended.output_text, ended.usage.total_tokens, ended.background], ["done", 34, true]);
    const next = await client().responses.create({ model, input: "and? [[text so]]", previous_response_id: begun.id });
    assert.equal(next.output_text, "so");
  });

  test("cancelled", async () => {
    const word = "background-cancelled";
    const { id } = await begin(`${word} [[text so far]] [[silence]]`);
    await until(async () => (await turns(word)).length === 1);
    assert.equal((await client().responses.cancel(id)).status, "cancelled");
    assert.equal((await client().responses.cancel(id)).status, "cancelled");
    assert.equal((await got(id)).status, "cancelled");
    await cut(word);
  });

  test("a stream that its client leaves is resumed, live, with no event lost or twice", async () => {
    const word = "background-resumed";
    const steps = `[[reasoning why]] [[text one ]] [[gate ${word}]] [[text two ]] [[call get_weather {"city":"Rome"}]]`;
    const stream = await begin(`${word} ${steps}`, { stream: true, tools: [{ type: "function", name: "get_weather", parameters: weather.parameters.toJSONSchema() }] });
    const first = [];
    for await (const e of stream) {
      first.push(e);
      if (e.type === "response.output_text.delta") break; // which closes the connection
    }
    const { id } = first[0].response;
    assert.equal((await got(id)).status, "in_progress");

    const rest = all(id, first.at(-1).sequence_number);
    const whole = all(id);
    await release(word);
    const events = await whole;
    assert.deepEqual([...first, ...(await rest)], events);
    assert.deepEqual(events.map((e) => e.sequence_number), [...events.keys()]);
    assert.equal(events.at(-1).type, "response.completed");
    assert.deepEqual(await all(id, 3), events.slice(4)); // of the finished response

    const helped = [];
    const again = client().responses.stream({ response_id: id, starting_after: first.at(-1).sequence_number });
    again.on("event", (e) => helped.push(e.sequence_number));
    assert.equal((await again.finalResponse()).output_text, "one two ");
    assert.deepEqual(helped, events.slice(first.length).map((e) => e.sequence_number));
  });

  test("one that fails ends as failed", async () => {
    const { id } = await begin("[[text so far]] [[failed server_error oops]]");
    await until(async () => (await got(id)).status === "failed");
    assert.equal((await got(id)).error.code, "server_error");
  });

  test("what cannot be resumed is refused with the remedy", async () => {
    const { id } = await client().responses.create({ model, input: "x" });
    await assert.rejects(client().responses.retrieve(id, { stream: true }), (e) => e instanceof OpenAI.BadRequestError && /background/.test(e.message));
    await assert.rejects(begin("x", { store: false }), OpenAI.BadRequestError);
    await assert.rejects(client().responses.cancel(id), OpenAI.BadRequestError);
  });
});
