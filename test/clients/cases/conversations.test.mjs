import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { client, model, turns } from "./bed.mjs";

const ask = (input, more = {}) => client().responses.create({ model, input, ...more });
const message = (content, role = "user") => ({ type: "message", role, content });
const texts = (items) => items.map((i) => i.content.map((c) => c.text).join(""));

describe("openai: conversations", { concurrency: true }, () => {
  test("responses in a conversation, its items and its end", async () => {
    const { conversations } = client();
    const made = await conversations.create({ metadata: { topic: "demo" }, items: [message("be short", "developer"), message("I am Ada")] });
    assert.match(made.id, /^conv_/);
    const first = await ask("conversation-1 [[text one]]", { conversation: made.id });
    assert.equal(first.conversation.id, made.id);
    const second = await ask("conversation-2 [[text two]]", { conversation: { id: made.id } });
    assert.equal(second.output_text, "two");
    const sent = JSON.stringify((await turns("conversation-2"))[0].input);
    const places = ["be short", "I am Ada", "conversation-1", '"one"', "conversation-2"].map((w) => sent.indexOf(w));
    assert.ok(places[0] >= 0, sent);
    assert.deepEqual(places, [...places].sort((a, b) => a - b));

    const items = [];
    for await (const item of conversations.items.list(made.id, { order: "asc", limit: 2 })) items.push(item);
    assert.deepEqual(texts(items), ["be short", "I am Ada", "conversation-1 [[text one]]", "one", "conversation-2 [[text two]]", "two"]);
    const { data } = await conversations.items.create(made.id, { items: [message("more")] });
    assert.deepEqual(texts([await conversations.items.retrieve(data[0].id, { conversation_id: made.id })]), ["more"]);
    await conversations.items.delete(data[0].id, { conversation_id: made.id });
    await assert.rejects(conversations.items.retrieve(data[0].id, { conversation_id: made.id }), OpenAI.NotFoundError);

    assert.deepEqual((await conversations.update(made.id, { metadata: { topic: "other" } })).metadata, { topic: "other" });
    assert.deepEqual((await conversations.retrieve(made.id)).metadata, { topic: "other" });
    assert.equal((await conversations.delete(made.id)).deleted, true);
    await assert.rejects(conversations.retrieve(made.id), OpenAI.NotFoundError);
    await assert.rejects(ask("x", { conversation: made.id }), OpenAI.NotFoundError);
  });

  test("with previous_response_id it is refused", async () => {
    const { id } = await client().conversations.create();
    const { id: previous_response_id } = await ask("x");
    await assert.rejects(ask("x", { conversation: id, previous_response_id }), (e) => e.code === "mutually_exclusive_parameters");
  });
});

describe("openai: tokens and compaction", { concurrency: true }, () => {
  test("inputTokens.count", async () => {
    const count = async (input) => (await client().responses.inputTokens.count({ model, input })).input_tokens;
    const few = await count("Hello");
    const many = await count("Hello ".repeat(1000));
    assert.ok(few > 0 && few < 1000 && many > few + 900, `${few}, ${many}`);
  });

  test("a compacted conversation goes on", async () => {
    const { responses } = client();
    const history = [
      { role: "developer", content: "be kind" },
      { role: "user", content: "compact-1 [[text the summary]]" },
      { role: "assistant", content: "a long answer" },
    ];
    const compacted = await responses.compact({ model, input: history });
    assert.equal(compacted.object, "response.compaction");
    assert.deepEqual(compacted.output.map((i) => i.type), ["message", "compaction"]);
    assert.match(compacted.output.at(-1).id, /^cmp_/);
    const next = await ask([...compacted.output, message("compact-2 [[text so]]")]);
    assert.equal(next.output_text, "so");
    const sent = JSON.stringify((await turns("compact-2"))[0].input);
    assert.ok(["be kind", "compact-1", "the summary"].every((text) => sent.includes(text)), sent);
    assert.ok(!sent.includes("a long answer"), sent);
  });

  test("a stored conversation is compacted by the id of its last response", async () => {
    const { id } = await ask("compact-stored [[text done]]");
    const { output } = await client().responses.compact({ model, previous_response_id: id });
    assert.equal(output.at(-1).type, "compaction");
    assert.equal((await ask([...output, message("and? [[text so]]")])).output_text, "so");
  });
});
