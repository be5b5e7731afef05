import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { loud, turns, until } from "../bed.mjs";
import { allowed, outputs, program, quiet, task } from "./claude.mjs";
import { installed, place, run } from "./program.mjs";

const cli = path.join(installed, "@musistudio/claude-code-router/dist/cli.js");
const config = await readFile(new URL("../../pages/claude-code-router.json", import.meta.url), "utf8");

describe("claude-code-router", () => {
  test("Claude Code reads and edits a file and runs a command, by messages and by chat completions", async (t) => {
    const { at, read } = await place({ "home/.claude-code-router/config.json": config, "work/greeting.txt": "hello world\n", "work/again.txt": "hello world\n" });
    const ccr = (args, more = {}) =>
      run(at, process.execPath, [cli, ...args], { env: { CODEX_PROXY_KEY: process.env.API_KEY, CLAUDE_PATH: program, ...quiet }, ...more });
    // `ccr code` gives a service that it starts ten seconds, which a busy machine may take.
    const service = ccr(["start"]);
    t.after(async () => {
      await ccr(["stop"]);
      await service;
    });
    await until(() => fetch("http://127.0.0.1:3456/health").then((answer) => answer.ok, () => false));
    assert.match((await ccr(["status"])).stdout, /Status: Running/);
    for (const [provider, file] of Object.entries({ codex: "greeting.txt", "codex-chat": "again.txt" })) {
      const word = `router-${provider}`;
      const ended = await ccr(["code", "-p", "--model", `${provider},${loud}`, ...allowed], { input: task(word, at(`work/${file}`)) });
      assert.equal(ended.code, 0, ended.stdout + ended.stderr);
      assert.match(ended.stdout, /all done\s*$/);
      assert.equal(await read(`work/${file}`), "hello proxy\n");
      const seen = await turns(word);
      assert.equal(seen.length, 4);
      assert.match(outputs(seen[3]).at(-1), new RegExp(`2 ${file}`));
    }
  });
});
