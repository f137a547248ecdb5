// The chat in a real terminal (tmux). The tests wait for text on the screen and never for a fixed time.

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { createPlace, ended } from "./harness.ts";
import { hasTmux, Tmux } from "./tmux.ts";

/** An empty prompt at the end of the screen. */
const prompt = /\n›$/;

describe.skipIf(!hasTmux)("in a real terminal (skipped without tmux)", () => {
  const tmux = new Tmux();
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "terminal-"));
  });

  afterAll(() => {
    tmux.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const slowly = { EVERTURN_OFFLINE_PACE: "60" };
  const quickly = { EVERTURN_OFFLINE_PACE: "2" };
  let session = "";

  test("streams text, cancels the turn at Ctrl-C, and exits at the second Ctrl-C", async () => {
    const pane = tmux.open(["chat"], { folder, environment: slowly });
    await pane.until(/everturn chat · offline:demo[^]*\n›$/);

    pane.say("good morning");
    const streamed = await pane.until(/You said: good morning[^]*offline model/);
    expect(streamed).not.toContain("ollama");
    pane.press("C-c");
    const cancelled = await pane.until(/Cancelled\. The text so far is kept\.[^]*\n›$/);
    expect(cancelled).not.toContain("ollama");

    // A tool shows its progress while it runs; two Ctrl-C in a row exit.
    pane.say('countdown {"from": 1000}');
    await pane.until(/countdown from: 1000 .*\d+ of 1000/);
    pane.press("C-c", "C-c");
    // If the turn ended between the two, the second Ctrl-C was pressed at the prompt.
    if (/Press Ctrl-C again/.test(await pane.until(/exit code \d+|Press Ctrl-C again[^]*\n›$/))) pane.press("C-c");
    const left = await pane.until(/exit code \d+/);
    session = /everturn chat --session (\S+)/.exec(left)?.[1] ?? "";
    expect(session).toMatch(/^session-/);
  });

  test("resumes a session with its messages, asks for approvals and answers, and exits at two Ctrl-C", async () => {
    const pane = tmux.open(["chat", "--session", session], { folder, height: 60, environment: quickly });
    const resumed = await pane.until(/› countdown \{"from": 1000\}[^]*\n›$/);
    expect(resumed).toContain(`Session ${session}`);
    expect(resumed).toContain("› good morning");

    pane.say("use clock, launch and survey");
    await pane.until(/\? launch needs your approval:[^]*yes, no \[reason\], edit ›$/);
    pane.say("no not today");
    await pane.until(/What is your favourite colour\?[^]*3\. blue[^]*answer ›$/);
    pane.say("3");
    const answered = await pane.until(/survey: blue[^]*\n›$/);
    expect(answered).toMatch(/✓ clock \d+ ms/);
    expect(answered).toContain("not today");

    pane.say("/sesions");
    await pane.until(/Unknown command \/sesions\. Did you mean \/sessions\?/);
    pane.press("Up", "Up");
    await pane.until(/› use clock, launch and survey$/);
    pane.press("C-c");
    await pane.until(prompt);
    pane.press("C-c");
    await pane.until(/Press Ctrl-C again[^]*\n›$/);
    pane.press("C-c");
    expect(await pane.until(/exit code \d+/)).toMatch(/exit code 0$/);
    expect(statSync(join(folder, "everturn", "chat-history.jsonl")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, "everturn", "chat-history.jsonl"), "utf8")).toContain('"/sesions"\n');
  });

  test("a turn survives an exit and a closed terminal, and continues when the session is resumed", async () => {
    const pane = tmux.open(["chat"], { folder, environment: slowly });
    await pane.until(prompt);
    pane.say('countdown {"from": 20}');
    await pane.until(/countdown from: 20 .*\d of 20/);
    pane.press("C-d");
    const left = await pane.until(/The turn is not lost[^]*exit code 130/);
    const id = /everturn chat --session (\S+)/.exec(left)?.[1] ?? "";

    const again = tmux.open(["chat", "--session", id], { folder, environment: slowly });
    await again.until(/countdown from: 20 .*\d of 20/);
    again.close();

    const last = tmux.open(["chat", "--continue"], { folder, environment: quickly });
    const shown = await last.until(/countdown: counted down from 20[^]*\n›$/);
    expect(shown).toContain(`Session ${id}`);
    last.press("C-d");
    await last.until(/exit code 0/);
  });

  test("approves, denies and edits a call with typed words, and sends no letter of them to the model", async () => {
    const pane = tmux.open(["chat"], { folder, width: 100, height: 80, environment: quickly });
    await pane.until(prompt);
    const asked = (text: string, number: number): boolean =>
      [...text.matchAll(/launch needs your approval:/g)].length === number && text.endsWith("edit ›");
    const answered = (text: string, number: number): boolean =>
      [...text.matchAll(/\d+ in, \d+ out/g)].length === number && prompt.test(text);

    pane.say('launch {"target": "Mars"}');
    await pane.until((text) => asked(text, 1));
    pane.say("yes");
    expect(await pane.until((text) => answered(text, 2))).toMatch(/on its way to Mars[^]*\n›$/);

    pane.say('launch {"target": "Venus"}');
    await pane.until((text) => asked(text, 2));
    pane.say("no");
    expect(await pane.until((text) => answered(text, 4))).not.toContain("on its way to Venus");

    // Text that is no answer, such as a message typed while the turn was still running, decides nothing.
    pane.say('launch {"target": "Ceres"}');
    await pane.until((text) => asked(text, 3));
    pane.say("yellow");
    await pane.until(/Type yes, no or edit[^]*edit ›$/);
    pane.say("e");
    await pane.until(/arguments › \{"target":"Ceres"\}$/);
    pane.press("C-u");
    pane.say('{"target":"Pluto"}');
    const edited = await pane.until((text) => answered(text, 6));
    expect(edited).toContain("on its way to Pluto");
    expect(edited).not.toContain("on its way to Ceres");
    expect(edited).not.toMatch(/You said: (?:es|o|s)\b/);
    pane.press("C-d");
    await pane.until(/exit code 0/);
  });

  test("after kill -9, chat --continue asks again for a pending approval", async () => {
    const pane = tmux.open(["chat"], { folder, environment: quickly });
    await pane.until(prompt);
    pane.say("launch");
    await pane.until(/needs your approval[^]*edit ›$/);
    pane.kill();
    await pane.until(/exit code 137/);
    const again = tmux.open(["chat", "--continue"], { folder, environment: quickly });
    await again.until(/› launch\n[^]*\? launch needs your approval:[^]*edit ›$/);
    again.say("yes");
    await again.until(/on its way to the moon[^]*\n›$/);
    again.press("C-d");
    await again.until(/exit code 0/);
  });

  test.each([
    ["a tool", 'countdown {"from": 1000}', /countdown from: 1000 .*\d of 1000/],
    ["the text of a reply", "good morning", /You said: good morning[^]*offline/],
  ])("after kill -9 during %s, chat --continue continues the turn at once", async (_, message, running) => {
    const pane = tmux.open(["chat"], { folder, environment: slowly });
    await pane.until(prompt);
    pane.say(message);
    await pane.until(running);
    pane.kill();
    await pane.until(/exit code 137/);
    const again = tmux.open(["chat", "--continue"], { folder, environment: slowly });
    await again.until(running);
    again.kill();
    await again.until(/exit code 137/);
  });

  test("chat --continue shows that it waits for the lease of a stopped process", async () => {
    const pane = tmux.open(["chat"], { folder, environment: slowly });
    await pane.until(prompt);
    pane.say('countdown {"from": 1000}');
    await pane.until(/countdown from: 1000 .*\d of 1000/);
    pane.signal("SIGSTOP");
    const again = tmux.open(["chat", "--continue"], { folder, environment: slowly });
    await again.until(
      /Waiting: [^]*has sent nothing for \d[^]*has stopped[^]*lease expires in at most \d+ s[^]*continues here/,
    );
    again.press("C-d");
    await again.until(/The turn is not lost[^]*exit code 130/);
    pane.kill();
  });

  test("handles 30 columns, wide and combining characters, pasted lines and a resized terminal", async () => {
    const pane = tmux.open(["chat"], { folder, width: 30, height: 50, environment: { ...quickly, NO_COLOR: "1" } });
    await pane.until(prompt);

    pane.type("你好 👍 e\u0301");
    await pane.until(/› 你好 👍 e\u0301$/);
    expect(pane.cursorColumn).toBe(2 + 4 + 1 + 2 + 1 + 1);
    pane.press("Left", "Left", "Left");
    await pane.until(() => pane.cursorColumn === 2 + 4 + 1);
    pane.press("Enter");
    await pane.until(/You said: 你好 👍 e\u0301\n[^]*\n›$/);

    pane.paste("line one\nline two");
    expect(await pane.until(/line two$/)).toMatch(/› line one\n {2}line two$/);
    pane.press("Enter");
    await pane.until(/You said: line one\nline two\n[^]*\n›$/);

    pane.say("markdown");
    const shown = await pane.until(/End of the example\.[^]*\n›$/);
    expect(shown).toContain("Some bold, some italic, some\ncode, and a");
    expect(shown).toContain("2. Second\n   ◦ with a point below it");
    expect(pane.styled).not.toContain("\u001B[");

    pane.type("a line that is longer than the terminal is wide");
    await pane.until(/› a line that is longer than\n {2}the terminal is wide$/);
    pane.resize(60, 50);
    await pane.until(/› a line that is longer than the terminal is wide$/);

    // Narrower than a row of the input, with the cursor in the first of several rows: the old rows are erased
    // completely.
    pane.press("C-u");
    pane.paste("above\nan input line that is wider than the terminal\nbelow");
    await pane.until(/below$/);
    pane.press("Up", "Up", "Home");
    await pane.until(() => pane.cursorColumn === 2);
    pane.resize(30, 50);
    const narrow = await pane.until(/› above\n {2}an input line that is wider\n {3}than the terminal\n {2}below$/);
    expect(narrow.match(/› above/g)).toHaveLength(1);
    pane.press("C-c", "C-d");
    await pane.until(/exit code 0/);
  });
});

test("chat without a terminal refers to everturn run", async () => {
  const place = createPlace();
  try {
    const child = place.start(["chat"]);
    child.stdin.end("hello\n");
    const { code, stdout, stderr } = await ended(child);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("everturn run");
  } finally {
    place.remove();
  }
});
