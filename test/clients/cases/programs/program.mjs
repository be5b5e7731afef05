// What the cases of command lines share: a program runs in a directory of its own, with a
// home of its own, and without the environment of the tests.
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const installed = fileURLToPath(new URL("../../node_modules/", import.meta.url));
export const calculator = fileURLToPath(new URL("calculator.mjs", import.meta.url));
const bound = 400_000;

// cache has what node has compiled of a program, for its next start.
const cache = process.env.NODE_COMPILE_CACHE;

// place is a new home and a new work directory with these files; names begin with
// home/ or work/.
export async function place(files) {
  const top = await mkdtemp(path.join(tmpdir(), "program-"));
  const at = (name) => path.join(top, name);
  await mkdir(at("home"));
  await mkdir(at("work"));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(at(name)), { recursive: true });
    await writeFile(at(name), content);
  }
  return { at, read: (name) => readFile(at(name), "utf8") };
}

// run ends with the program, which reads input. A case that interrupts it, as Ctrl-C in a
// terminal does, calls the second argument of started.
export function run(at, command, args, { env = {}, input = "", started = () => {} } = {}) {
  return new Promise((done, fail) => {
    const child = spawn(command, args, {
      cwd: at("work"), detached: true, // which makes a process group
      env: { PATH: `${path.dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`, HOME: at("home"), NODE_COMPILE_CACHE: cache, ...env },
    });
    const signal = (name) => process.kill(-child.pid, name);
    const timer = setTimeout(() => signal("SIGKILL"), bound);
    const out = { stdout: "", stderr: "" };
    child.stdout.on("data", (d) => (out.stdout += d));
    child.stderr.on("data", (d) => (out.stderr += d));
    child.on("error", fail);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      done({ ...out, code, signal });
    });
    child.stdin.end(input);
    started(child.stdout, () => signal("SIGINT"));
  });
}
