// What the libraries of OpenAI and Anthropic raise for each fault of the model endpoint: the cells of the table on
// standard input, the names of the classes on standard output, "" where nothing is raised.
import { text } from "node:stream/consumers";
import Anthropic from "@anthropic-ai/sdk";
import { baseURL, client, model } from "./bed.mjs";

const options = { maxRetries: 1, timeout: 120_000 };
const openAI = client(options);
const anthropic = new Anthropic({ baseURL: baseURL.replace("/v1", ""), apiKey: process.env.API_KEY, ...options });

const parameters = { type: "object", properties: { city: { type: "string" } } };
const asked = {
  chat: (prompt, stream, options) =>
    openAI.chat.completions.create({ model, stream, messages: [{ role: "user", content: prompt }], tools: [{ type: "function", function: { name: "get_weather", parameters } }] }, options),
  responses: (prompt, stream, options) =>
    openAI.responses.create({ model, stream, input: prompt, tools: [{ type: "function", name: "get_weather", parameters, strict: false }] }, options),
  messages: (prompt, stream, options) =>
    anthropic.messages.create({ model, stream, max_tokens: 1000, messages: [{ role: "user", content: prompt }], tools: [{ name: "get_weather", input_schema: parameters }] }, options),
};

async function raised({ id, api, prompt, stream }) {
  try {
    const answer = await asked[api](prompt, stream, { headers: { "X-Request-Id": id } });
    if (stream) for await (const _ of answer);
    return "";
  } catch (e) {
    return e.constructor.name;
  }
}

const cells = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(await Promise.all(cells.map(raised))));
