// A burst of calls with the settings of the library is answered: all calls come at the
// same time, more than the worker has places for.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { client, model } from "./bed.mjs";

const calls = 100;
const refused = [];
const { maxRetries, timeout } = new OpenAI({ apiKey: "any" });
const c = client({
  maxRetries,
  timeout,
  fetch: async (...args) => {
    const answer = await fetch(...args);
    if (!answer.ok) refused.push(answer.status);
    return answer;
  },
});

const prompt = (i, stream) => ({
  model,
  stream,
  messages: [{ role: "user", content: `npm ${i} [[delay 3s]][[text done]]` }],
});

async function whole(i) {
  return (await c.chat.completions.create(prompt(i, false))).choices[0].message.content;
}

async function streamed(i) {
  let text = "";
  for await (const chunk of await c.chat.completions.create(prompt(i, true))) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  return text;
}

const answers = await Promise.all(Array.from({ length: calls }, (_, i) => (i % 2 ? streamed(i) : whole(i))));
assert.deepEqual(answers, Array(calls).fill("done"));
assert.deepEqual(refused, []);
console.log(`npm openai: ${calls} calls, maxRetries ${maxRetries}, none refused`);
