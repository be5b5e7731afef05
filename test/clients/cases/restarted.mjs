// The worker is killed in the middle of these turns. The service runs them again, and the
// model endpoint then refuses each once: by its own default, each client sends its request
// again, after the time of Retry-After.
import assert from "node:assert/strict";
import { openAICompatible } from "@genkit-ai/compat-oai";
import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { generateText, streamText } from "ai";
import { genkit } from "genkit";
import OpenAI from "openai";
import { baseURL, model } from "./bed.mjs";

const apiKey = process.env.API_KEY;
const openai = new OpenAI({ baseURL, apiKey });
const provider = createOpenAI({ baseURL, apiKey });
const prompt = (name) => `restarted-${name}`;

const clients = {
  openai: async (prompt) => (await openai.responses.create({ model, input: prompt })).output_text,
  ai: async (prompt) => (await generateText({ model: provider.chat(model), prompt })).text,
  "ai, streamed": async (prompt) => await streamText({ model: provider.responses(model), prompt }).text,
  langchain: async (prompt) => (await new ChatOpenAI({ model, apiKey, configuration: { baseURL } }).invoke(prompt)).text,
  agents: async (prompt) => {
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: openai }), tracingDisabled: true });
    return (await runner.run(new Agent({ name: "Helper", model }), prompt)).finalOutput;
  },
  genkit: async (prompt) => (await genkit({ plugins: [openAICompatible({ name: "codex", baseURL, apiKey })], model: `codex/${model}` }).generate(prompt)).text,
};

const answers = await Promise.all(Object.entries(clients).map(async ([name, ask]) => [name, await ask(prompt(name))]));
for (const [name, text] of answers) assert.equal(text, "hello from the model server", name);
