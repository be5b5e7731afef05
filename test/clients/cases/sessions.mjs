// Sessions with tools, several at a time, through the end of an account's quota: every request is sent once, none fails.
// The argument is how many calls of a tool a session has. The sessions go from call to call together, so that all are
// in their middle at the same time.
import assert from "node:assert/strict";
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { client, model, weather } from "./bed.mjs";

const calls = Number(process.argv[2]);
const openai = client({ timeout: 120_000 });
const cities = Array.from({ length: calls }, (_, i) => `City-${i}`);
const script = (name) =>
  `session-npm-${name} ${cities.map((city) => `[[reasoning hm]] [[call get_weather {"city":"${city}"}]] [[then]]`).join(" ")} [[text the]] [[text end]]`;
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

// together returns a tool of one session, which waits for the same call of all others.
const waiting = [];
const together = (seen) => async ({ city }) => {
  seen.push(city);
  await new Promise((go) => waiting.push(go) === Object.keys(sessions).length && waiting.splice(0).forEach((all) => all()));
  return `sunny in ${city}`;
};

async function chat(prompt, getWeather) {
  const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
  for (const messages = [{ role: "user", content: prompt }]; ; ) {
    const { message } = (await openai.chat.completions.create({ model, messages, tools })).choices[0];
    if (!message.tool_calls) return message.content;
    messages.push(message);
    for (const call of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: call.id, content: await getWeather(JSON.parse(call.function.arguments)) });
    }
  }
}

async function responses(prompt, getWeather, carry) {
  const tools = [{ type: "function", name: "get_weather", parameters, strict: true }];
  for (let next = { input: [{ role: "user", content: prompt }] }; ; ) {
    const answer = await openai.responses.create({ model, tools, include: ["reasoning.encrypted_content"], ...next });
    const made = answer.output.filter((item) => item.type === "function_call");
    if (made.length === 0) return answer.output_text;
    const results = [];
    for (const call of made) {
      results.push({ type: "function_call_output", call_id: call.call_id, output: await getWeather(JSON.parse(call.arguments)) });
    }
    next = carry(next, answer, results);
  }
}

const agent = (useResponses) => async (prompt, execute) => {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: openai, useResponses }), tracingDisabled: true });
  const helper = new Agent({ name: "Helper", model, tools: [tool({ name: "get_weather", ...weather, execute })] });
  return (await runner.run(helper, prompt, { maxTurns: calls + 1 })).finalOutput;
};

const sessions = {
  chat,
  "previous-response": (prompt, t) => responses(prompt, t, (_, answer, results) => ({ previous_response_id: answer.id, input: results })),
  "own-history": (prompt, t) => responses(prompt, t, ({ input }, answer, results) => ({ store: false, input: [...input, ...answer.output, ...results] })),
  "agents-chat": agent(false),
  "agents-responses": agent(true),
};

await Promise.all(Object.entries(sessions).map(async ([name, run]) => {
  const seen = [];
  assert.equal(await run(script(name), together(seen)), "theend", name);
  assert.deepEqual(seen, cities, name);
}));
