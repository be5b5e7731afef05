import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText, tool } from "ai";
import { baseURL, model, parallel, results, turns, weather } from "./bed.mjs";

const provider = createOpenAI({ baseURL, apiKey: process.env.API_KEY });
const models = { chat: provider.chat(model), responses: provider.responses(model) };

describe("Vercel AI SDK: a loop of two parallel tools", { concurrency: true }, () => {
  for (const [name, m] of Object.entries(models)) {
    const options = (word) => ({
      model: m,
      maxRetries: 0,
      prompt: parallel(word),
      stopWhen: isStepCount(3),
      tools: { get_weather: tool({ description: weather.description, inputSchema: weather.parameters, execute: async ({ city }) => `sunny in ${city}` }) },
    });
    const judge = async (word, text) => {
      assert.equal(text, "hello from the model server");
      const seen = await turns(word);
      assert.equal(seen.length, 2);
      const heard = results(seen[1]).map(([city, output]) => [city, output.replaceAll('"', "")]);
      assert.deepEqual(heard, [["Paris", "sunny in Paris"], ["Rome", "sunny in Rome"]]);
    };
    test(`${name}, whole`, async () => {
      const word = `ai-${name}-whole`;
      await judge(word, (await generateText(options(word))).text);
    });
    test(`${name}, streamed`, async () => {
      const word = `ai-${name}-streamed`;
      const result = streamText({ ...options(word), onError: ({ error }) => { throw error; } });
      await judge(word, await result.text);
    });
  }
});
