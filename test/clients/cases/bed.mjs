// What the cases share: the service and the scripted model endpoint behind it.
// A prompt holds its answer, see package modelserver: [[text hello]].
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { z } from "zod";

export const model = "gpt-test";
// thinker is a model whose name clients take for that of a reasoning model.
export const thinker = "gpt-5.5";
// loud is an alias whose answers have the summary of their reasoning by default.
export const loud = "loud";
// claude is the name of a model of Anthropic, which a pattern of the aliases maps.
export const claude = "claude-test-5";
export const origin = "http://127.0.0.1:8787";
export const baseURL = `${origin}/v1`;
const endpoint = "http://127.0.0.1:18080";

export const client = (options = {}) => new OpenAI({ baseURL, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 120_000, ...options });
export const anthropic = (options = {}) => new Anthropic({ baseURL: origin, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 120_000, ...options });

const received = async (word) => {
  const { requests } = await (await fetch(`${endpoint}/_requests`)).json();
  return (requests ?? []).filter((r) => r.method === "POST" && JSON.stringify(r.body.raw.input).includes(word));
};

// turns are the bodies that the model endpoint received whose input has the
// word, oldest first.
export const turns = async (word) => (await received(word)).map((r) => r.body.raw);

// until waits for the condition, for three minutes at most: the machine may be busy.
export async function until(condition) {
  for (const end = Date.now() + 180_000; !(await condition()); await new Promise((done) => setTimeout(done, 50))) {
    assert.ok(Date.now() < end, `${condition} was waited for in vain`);
  }
}

// cut waits until the turn with the word has ended at the model endpoint before its
// answer did.
export const cut = (word) => until(async () => (await received(word)).some((r) => r.cut));

export const City = z.object({ city: z.string(), population: z.number().int() });
export const rome = { city: "Rome", population: 2800000 };

// pixel is a PNG of one pixel.
export const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

export const weather = { description: "the weather in a city", parameters: z.object({ city: z.string() }) };
// parallel is a prompt to which the model answers with two calls.
export const parallel = (word) => `${word} [[call get_weather {"city":"Paris"}]] [[call get_weather {"city":"Rome"}]]`;

// loop is a prompt to which the model answers with two calls, then one, then text.
export const loop = (word) => `${parallel(word)} [[then]] [[call get_weather {"city":"Oslo"}]] [[then]] [[text wa]] [[text rm]]`;

// results are what a follow-up brought to the model endpoint: the arguments of
// the calls and their outputs, joined by their ids.
export function results(turn) {
  const calls = turn.input.filter((i) => i.type === "function_call");
  return calls.map((c) => [JSON.parse(c.arguments).city, turn.input.find((o) => o.type === "function_call_output" && o.call_id === c.call_id).output]);
}
