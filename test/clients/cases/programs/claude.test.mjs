import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { claude, cut, origin, turns } from "../bed.mjs";
import { allowed, outputs, program, quiet, task } from "./claude.mjs";
import { calculator, place, run } from "./program.mjs";

// settings are those of the page in docs/clients.
const page = JSON.parse(await readFile(new URL("../../pages/claude-code.json", import.meta.url), "utf8"));
const { ANTHROPIC_AUTH_TOKEN: _, ...address } = page.env;
const settings = (key) => JSON.stringify({ ...page, env: { ...address, ...key } });

const newPlace = ({ key = { ANTHROPIC_AUTH_TOKEN: process.env.API_KEY }, ...files } = {}) => place({ "home/.claude/settings.json": settings(key), ...files });
const mcp = JSON.stringify({ mcpServers: { calc: { command: process.execPath, args: [calculator] } } });
const code = (at, args, more = {}) => run(at, program, ["-p", ...args], { ...more, env: { ...quiet, ...more.env } });
const files = { "work/greeting.txt": "hello world\n" };

describe("Claude Code", { concurrency: true }, () => {
  test("reads and edits a file and runs a command, and the session goes on", async () => {
    const { at, read } = await newPlace(files);
    const json = ["--output-format", "json", ...allowed];
    const ended = await code(at, json, { input: task("claude-task", at("work/greeting.txt")) });
    assert.equal(ended.code, 0, ended.stdout + ended.stderr);
    const { result, is_error, usage, permission_denials } = JSON.parse(ended.stdout);
    assert.deepEqual([result, is_error, permission_denials], ["all done", false, []]);
    assert.deepEqual([usage.input_tokens, usage.output_tokens], [40, 20]); // of four turns
    assert.equal(await read("work/greeting.txt"), "hello proxy\n");
    const seen = await turns("claude-task");
    assert.equal(seen.length, 4);
    assert.match(outputs(seen[1])[0], /hello world/);
    assert.match(outputs(seen[3]).at(-1), /2 greeting\.txt/);

    const again = await code(at, [...json, "--continue"], { input: "claude-again [[text so]]" });
    assert.equal(JSON.parse(again.stdout).result, "so", again.stdout + again.stderr);
    const [turn] = await turns("claude-again");
    assert.ok(["2 greeting.txt", "all done"].every((text) => JSON.stringify(turn.input).includes(text)));
  });

  // It asks the API for a verdict on each call, and denies a call without one.
  test("auto mode runs a command", async () => {
    const { at, read } = await newPlace(files);
    const command = JSON.stringify({ command: "sh -c 'tr o 0 <greeting.txt >made.txt'", description: "write a file" });
    const ended = await code(at, ["--permission-mode", "auto", "--model", "claude-opus-5", "--output-format", "json"],
      { input: `claude-auto [[call Bash ${command}]] [[then]] [[text done]]`, env: { CLAUDE_CODE_AUTO_MODE_SERVER: "1" } });
    assert.equal(ended.code, 0, ended.stdout + ended.stderr);
    const { result, permission_denials } = JSON.parse(ended.stdout);
    assert.deepEqual([result, permission_denials], ["done", []]);
    assert.equal(await read("work/made.txt"), "hell0 w0rld\n");
  });

  test("two tools at once, one of them of an MCP server, whose results have their places", async () => {
    const { at } = await newPlace(files);
    const calls = `[[call Read ${JSON.stringify({ file_path: at("work/greeting.txt") })}]] [[call client_mcp__calc__add {"a":40,"b":2}]]`;
    const ended = await code(at, ["--mcp-config", mcp, ...allowed], { input: `claude-mcp ${calls} [[then]] [[text sum]]`, env: { ENABLE_TOOL_SEARCH: "false" } });
    assert.equal(ended.stdout.trim(), "sum", ended.stderr);
    const [, second] = await turns("claude-mcp");
    assert.match(outputs(second)[0], /hello world/);
    assert.match(outputs(second)[1], /the sum is 42/);
  });

  test("a subagent", async () => {
    const { at } = await newPlace();
    const input = JSON.stringify({ description: "look", prompt: "answer", subagent_type: "general-purpose", run_in_background: false });
    const ended = await code(at, ["--allowedTools", "Agent"], { input: `claude-outer [[call Agent ${input}]] [[then]] [[text outer answer]]` });
    assert.equal(ended.stdout.trim(), "outer answer", ended.stderr);
    assert.match(outputs((await turns("claude-outer")).at(-1))[0], /hello from the model server/);
  });

  test("streams thoughts and text, and is interrupted", async () => {
    const { at } = await newPlace();
    const texts = [], thoughts = [];
    await code(at, ["--output-format", "stream-json", "--verbose", "--include-partial-messages", "--thinking-display", "summarized"], {
      input: "claude-interrupted [[reasoning because]] [[text so ]] [[text far]] [[silence]]",
      started: (stdout, interrupt) => {
        createInterface(stdout).on("line", (line) => {
          const { text, thinking } = JSON.parse(line).event?.delta ?? {};
          if (thinking) thoughts.push(thinking);
          if (text) texts.push(text);
          if (text === "far") interrupt();
        });
      },
    });
    assert.deepEqual([thoughts, texts], [["because"], ["so ", "far"]]);
    await cut("claude-interrupted");
  });

  // It replaces the message of every 404 by one of its own.
  test("a model that nothing maps: the operator's setting is named", async () => {
    const { at } = await newPlace();
    const ended = await code(at, ["--model", "gpt-none"], { input: "x" });
    assert.equal(ended.code, 1);
    assert.match(ended.stdout, /^API Error: 400 .*"gpt-none" = \{ model = ".+" \}.*\[models\.aliases\] in \/etc\/codex-proxy\/config\.toml/);
  });

  for (const name of ["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"]) {
    test(`a wrong key in ${name} is shown at once`, async () => {
      const { at } = await newPlace({ key: { [name]: "sk-wrong" } });
      const ended = await code(at, [], { input: "x" });
      assert.equal(ended.code, 1);
      assert.equal(ended.stdout, "Failed to authenticate. API Error: 401 Incorrect API key provided: send a valid API key as Authorization: Bearer KEY\n");
    });
  }

  test("a key in ANTHROPIC_API_KEY, the address in ANTHROPIC_BASE_URL, a model of codex by its own name", async () => {
    const { at } = await place({});
    const env = { ANTHROPIC_BASE_URL: origin, ANTHROPIC_API_KEY: process.env.API_KEY };
    const ended = await code(at, ["--model", claude], { input: "[[text by the environment]]", env });
    assert.equal(ended.stdout.trim(), "by the environment", ended.stderr);
  });
});
