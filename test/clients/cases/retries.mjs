// The model endpoint refuses the first requests. A client with
// retries waits as long as Retry-After says; by itself it would wait half a second.
import assert from "node:assert/strict";
import { client, model } from "./bed.mjs";

async function retried(n) {
  const asked = [];
  const c = client({
    maxRetries: 1,
    fetch: async (...args) => {
      const began = performance.now();
      const answer = await fetch(...args);
      asked.push({ began, ended: performance.now(), status: answer.status, after: answer.headers.get("retry-after") });
      return answer;
    },
  });
  const answer = await c.chat.completions.create({ model, messages: [{ role: "user", content: `retried-by-npm ${n}` }] });
  assert.equal(answer.choices[0].message.content, "hello from the model server");
  assert.equal(asked.length, 2);
  const [first, second] = asked;
  const waited = second.began - first.ended;
  console.log(`npm openai: ${first.status}, Retry-After ${first.after} s, asked again after ${(waited / 1000).toFixed(2)} s`);
  assert.ok(first.status === 429 || first.status === 503);
  assert.ok(waited >= first.after * 1000 - 5, `${waited} ms`); // timers may be a little early
  return first.status;
}

const statuses = await Promise.all([retried(1), retried(2)]);
assert.deepEqual(statuses.sort(), [429, 503]);
