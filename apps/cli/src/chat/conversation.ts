// The conversation at the terminal: what is typed goes to the durable runtime, and what happens there is shown. There is no loop of its own here: a turn
// that somebody else drives, or that was left behind, is shown like one that was just asked for.

import type { Line } from "../terminal/prompt.ts";
import type { Workspace } from "../workspace.ts";
import type { ChatDesk } from "./follow.ts";
import type { Asked } from "./waiting.ts";
import type { DurableOptions, SessionView, TurnHandle } from "everturn/runtime";

import { brief, plural } from "../commands/text.ts";
import { fit } from "../terminal/cells.ts";
import { wrapRuns } from "../terminal/flow.ts";
import { askLine } from "../terminal/prompt.ts";
import { safeText } from "../terminal/safe-text.ts";
import { plain } from "../terminal/style.ts";
import { errorText, followTurn } from "./follow.ts";
import { runCommand } from "./run-command.ts";
import { commands, complete, matching, readSpoken } from "./slash.ts";
import { promptSign, renderTranscript } from "./transcript.ts";
import { historyPath, TypedHistory } from "./typed-history.ts";
import { askWaiting } from "./waiting.ts";

/** How many messages are shown of a session that is gone on with. */
const messagesShown = 6;
/** Two Ctrl-C within this time, at an empty prompt, leave. */
const twiceWithinMs = 2000;
/** How often somebody looks whether a turn was left behind. */
const lookEveryMs = 1000;

type Mood = "talking" | "left";

export class Conversation {
  readonly desk: ChatDesk;
  readonly workspace: Workspace;
  /** The session; `null`: the first message begins one. */
  id: string | null = null;
  /** The model from now on, if it is not the one that is set. */
  model: string | null = null;
  readonly #typed: TypedHistory;
  /** The turn to show next. */
  #turn: TurnHandle | null = null;
  /** What stands at the next prompt. */
  #draft = "";
  #interruptedAt = Number.NEGATIVE_INFINITY;
  #isGone = false;
  /** The turn that is shown runs in another process, as far as anybody knows. */
  #isElsewhere = false;

  constructor(desk: ChatDesk, workspace: Workspace) {
    this.desk = desk;
    this.workspace = workspace;
    this.#typed = new TypedHistory(historyPath(workspace.database.path));
    desk.screen.terminal.onGone(() => (this.#isGone = true));
  }

  /** Talks until the person leaves; whether a turn was open then. */
  async talk(): Promise<{ readonly leftOpen: boolean }> {
    for (;;) {
      const mood = await this.#settle().catch((error: unknown) => this.#failed(error));
      if (mood === "left" || this.#isGone) break;
      const line = await this.#prompt();
      const after = await this.#hear(line).catch((error: unknown) => this.#failed(error));
      if (after === "left") break;
    }
    const view = this.id === null ? null : await this.desk.sessions.get(this.id, { messages: 0 }).catch(() => null);
    return { leftOpen: view !== null && view.openTurn !== null && view.openTurn.status !== "parked" };
  }

  /** Options of a verb that drives. */
  get options(): DurableOptions {
    return this.model === null ? {} : { model: this.model };
  }

  /** Goes on with a session, and shows how far it is. */
  async resume(id: string): Promise<boolean> {
    const view = await this.desk.sessions.get(id, { messages: messagesShown });
    if (view === null) return false;
    this.id = id;
    this.say(`Session ${id} · ${plural(view.length, "message")}`, "dim");
    const { messages } = view.session.thread;
    if (view.length > messages.length)
      this.say(`  … ${view.length - messages.length} before these (/show has all)`, "dim");
    this.desk.screen.print(renderTranscript(messages, { width: this.desk.screen.width, colours: this.desk.colours }));
    this.#tellParked(view);
    return true;
  }

  follow(turn: TurnHandle): void {
    if (turn.turnId !== null) this.#turn = turn;
  }

  say(text: string, look: "plain" | "dim" | "yellow" | "red" = "plain"): void {
    const { screen, colours } = this.desk;
    const style = look === "plain" ? plain : look === "dim" ? ({ dim: true } as const) : ({ hue: look } as const);
    const lines = wrapRuns([{ text: safeText(text), style }], { width: screen.width, colours: colours.enabled });
    screen.print(`${lines}\n`);
  }

  /** Shows what runs, and asks what is to be asked, until it is the person's turn. */
  async #settle(): Promise<Mood> {
    for (;;) {
      const turn = this.#turn ?? (await this.#nextTurn());
      this.#turn = null;
      if (turn === "ended") return "left";
      if (typeof turn === "string") return "talking";
      const { type, typed } = await followTurn(this.desk, turn, {
        typed: this.#draft,
        whereabouts: () =>
          this.#isElsewhere ? "another process runs it; should that stop, it is taken over here" : "",
      });
      this.#isElsewhere = false;
      this.#draft = typed;
      if (type === "left") return "left";
      // It would go wrong again: whoever says something tries again.
      if (type === "failed") return "talking";
    }
  }

  /** The turn that is open, or that the answers to what is asked begin. */
  async #nextTurn(): Promise<Asked> {
    if (this.id === null) return "nothing";
    const view = await this.desk.sessions.get(this.id, { messages: 0 });
    if (view?.openTurn === null) return askWaiting(this.desk, this.id);
    if (view === null || view.openTurn.status === "parked") return "nothing";
    const { turnId } = view.openTurn;
    void this.#keepDriven(this.id, turnId);
    return this.desk.sessions.attach(this.id, turnId);
  }

  /** A turn that was left behind is driven here, as soon as nobody else can have it. */
  async #keepDriven(id: string, turnId: string): Promise<void> {
    const { sessions } = this.desk;
    for (;;) {
      const open = (await sessions.get(id, { messages: 0 }).catch(() => null))?.openTurn ?? null;
      if (this.#isGone || open === null || open.turnId !== turnId || open.status === "parked") return;
      const { pickedUp } = await sessions.recover(id).catch(() => ({ pickedUp: 0 }));
      this.#isElsewhere = pickedUp === 0;
      if (pickedUp > 0) return;
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs).unref());
    }
  }

  #prompt(): Promise<Line> {
    const { screen, colours } = this.desk;
    screen.print("\n");
    const text = this.#draft;
    this.#draft = "";
    return askLine(screen, {
      prompt: colours.paint(promptSign, { bold: true, hue: "cyan" }),
      history: this.#typed.entries,
      text,
      complete,
      hint: (typed) =>
        matching(typed).map((name) => {
          const { argument, summary } = commands[name];
          return colours.dim(fit(`  /${`${name} ${argument}`.padEnd(14)} ${summary}`, screen.width - 1));
        }),
    });
  }

  async #hear(line: Line): Promise<Mood> {
    if (line.type === "ended") return "left";
    if (line.type === "interrupted") {
      const { now } = this.desk;
      const isSecond = line.text === "" && now() - this.#interruptedAt < twiceWithinMs;
      if (line.text === "" && !isSecond) this.say("Ctrl-C once more leaves, and so does Ctrl-D.", "dim");
      this.#interruptedAt = line.text === "" ? now() : Number.NEGATIVE_INFINITY;
      return isSecond ? "left" : "talking";
    }
    this.#typed.add(line.text);
    const spoken = readSpoken(line.text);
    switch (spoken.type) {
      case "nothing":
        return "talking";
      case "message":
        await this.#send(spoken.text);
        return "talking";
      case "unknown": {
        const known = spoken.suggestions.map((name) => `/${name}`).join(" or ");
        this.say(
          `There is no /${brief(spoken.word, 30)}. ${known === "" ? "/help has the list." : `Perhaps ${known}?`}`,
          "yellow",
        );
        return "talking";
      }
      case "command":
        return (await runCommand(this, spoken.name, spoken.argument)) === "quit" ? "left" : "talking";
    }
  }

  async #send(text: string): Promise<void> {
    const { sessions } = this.desk;
    if (this.id === null) {
      this.#turn = await sessions.start(text, this.options);
      this.id = this.#turn.sessionId;
      return;
    }
    const view = await sessions.get(this.id, { messages: 0 });
    if (view === null) throw new Error(`session ${this.id} is gone; /new begins another one`);
    if (view.openTurn?.status === "parked") {
      this.#draft = text;
      return this.#tellParked(view);
    }
    if (view.session.status === "awaiting_tools") {
      // It is asked next; what was typed is not lost.
      this.#draft = text;
      return this.say("Something waits for you first.", "yellow");
    }
    // What failed before is no reason not to go on.
    if (view.session.status === "error") await sessions.recover(this.id);
    this.#turn = await sessions.send(this.id, text, this.options);
  }

  #tellParked({ openTurn }: SessionView): void {
    if (openTurn?.status !== "parked") return;
    if (openTurn.failure !== null) this.say(`✗ ${openTurn.failure.message}`, "red");
    this.say(
      "Its turn is parked: it cannot be replayed with the code as it is now. /continue ends it and goes on.",
      "yellow",
    );
  }

  #failed(error: unknown): Mood {
    this.say(`✗ ${errorText(error)}`, "red");
    return "talking";
  }
}
