import assert from "node:assert/strict";
import path from "node:path";
import { createInterface } from "node:readline";
import { describe, test } from "node:test";
import { baseURL, cut, loud, turns } from "../bed.mjs";
import { calculator, installed, place, run } from "./program.mjs";

const cli = path.join(installed, "@qwen-code/qwen-code/cli.js");

const settings = JSON.stringify({
  general: { enableAutoUpdate: false },
  privacy: { usageStatisticsEnabled: false },
  security: { auth: { selectedType: "openai" } },
  mcpServers: { calc: { command: process.execPath, args: [calculator] } },
});

const newPlace = (files = {}) => place({ "home/.qwen/settings.json": settings, ...files });
const qwen = (at, args, { key = process.env.API_KEY, ...more } = {}) =>
  run(at, process.execPath, [cli, ...args], { env: { OPENAI_API_KEY: key, OPENAI_BASE_URL: baseURL, OPENAI_MODEL: loud }, ...more });

// outputs are the results of tools that the turn brought.
const outputs = (turn) => turn.input.filter((i) => i.type === "function_call_output").map((i) => JSON.stringify(i.output));

describe("Qwen Code", () => {
  test("edits a file and calls the tool of an MCP server, and the session goes on", async () => {
    const { at, read } = await newPlace({ "work/greeting.txt": "hello world\n" });
    const file = at("work/greeting.txt");
    // Qwen Code offers the tools of MCP servers after a search for them.
    const prompt = `qwen-loop [[call read_file ${JSON.stringify({ file_path: file })}]] [[call tool_search {"query":"select:mcp__calc__add"}]] [[then]]
      [[call edit ${JSON.stringify({ file_path: file, old_string: "world", new_string: "proxy" })}]] [[call client_mcp__calc__add {"a":40,"b":2}]] [[then]]
      [[text all ]] [[text done]]`;
    const ended = await qwen(at, ["--yolo", "-p", prompt]);
    assert.equal(ended.code, 0, ended.stderr);
    assert.equal(ended.stdout.trim(), "all done");
    assert.equal(await read("work/greeting.txt"), "hello proxy\n");
    const seen = await turns("qwen-loop");
    assert.equal(seen.length, 3);
    assert.match(outputs(seen[1])[0], /hello world/);
    assert.match(outputs(seen[2]).at(-1), /the sum is 42/);

    const again = await qwen(at, ["--continue", "-p", "qwen-again [[text so]]"]);
    assert.equal(again.stdout.trim(), "so", again.stderr);
    const [turn] = await turns("qwen-again");
    assert.ok(["the sum is 42", "all done"].every((text) => JSON.stringify(turn.input).includes(text)));
  });

  test("streams thoughts and text, and is interrupted", async () => {
    const { at } = await newPlace();
    const args = ["--output-format", "stream-json", "--include-partial-messages", "-p", "qwen-interrupted [[reasoning because]] [[text so ]] [[text far]] [[silence]]"];
    const texts = [], thoughts = [];
    await qwen(at, args, {
      started: (stdout, interrupt) => {
        createInterface(stdout).on("line", (line) => {
          const { text, thinking } = JSON.parse(line).event?.delta ?? {};
          if (thinking) thoughts.push(thinking);
          if (text) texts.push(text);
          if (text === "far") interrupt();
        });
      },
    });
    assert.deepEqual(thoughts, ["because"]);
    assert.deepEqual(texts, ["so ", "far"]);
    await cut("qwen-interrupted");
  });

  test("an error is shown", async () => {
    const { at } = await newPlace();
    const ended = await qwen(at, ["-p", "x"], { key: "sk-wrong" });
    assert.equal(ended.code, 1);
    assert.match(ended.stdout + ended.stderr, /401 .*API key/);
  });
});
