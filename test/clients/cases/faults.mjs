// What openai-npm raises for each fault of the model endpoint: the cells of the table on standard input, the names of
// the classes on standard output, "" where nothing is raised.
import { text } from "node:stream/consumers";
import { client, model } from "./bed.mjs";

const parameters = { type: "object", properties: { city: { type: "string" } } };
const asked = {
  chat: (c, prompt, stream, options) =>
    c.chat.completions.create({ model, stream, messages: [{ role: "user", content: prompt }], tools: [{ type: "function", function: { name: "get_weather", parameters } }] }, options),
  responses: (c, prompt, stream, options) =>
    c.responses.create({ model, stream, input: prompt, tools: [{ type: "function", name: "get_weather", parameters, strict: false }] }, options),
};

async function raised({ id, api, prompt, stream }) {
  try {
    const answer = await asked[api](client({ maxRetries: 1, timeout: 60_000 }), prompt, stream, { headers: { "X-Request-Id": id } });
    if (stream) for await (const _ of answer);
    return "";
  } catch (e) {
    return e.constructor.name;
  }
}

const cells = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(await Promise.all(cells.map(raised))));
