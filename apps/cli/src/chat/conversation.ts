// The interactive conversation: sends typed messages to the durable runtime and shows the events of its turns.
//
// Theory of operation
//   One loop: show the open turn until it ends (follow.ts), ask for what the session waits for (pending-prompts.ts),
//   then prompt for the next message. The chat keeps only the session id, the model of `/model` and unsent text between
//   these steps: it reads the session before each of them, so it continues correctly after another process has changed
//   the session, and after `kill -9` of this one. A turn that another process drives is shown in the same way as a turn
//   started here. While it is shown, the chat tries once a second to recover it, which succeeds as soon as the lease of
//   its process was released or has expired.
//
// How the chat ends
//   Ctrl-D, two Ctrl-C, /quit     the workspace is closed by the caller, which releases the lease of a turn that is
//                                 still running
//   terminal closed, SIGTERM      the lease is released too; nothing is printed to a closed terminal
//   kill -9                       the lease expires; `chat --continue` shows that it waits for that
//
// Invariants
//   1. A message that the session cannot accept now (a pending call, a parked turn) becomes the draft of the next
//      prompt.
//   2. Pending approvals and questions are asked for before the next message is sent.
//   3. Text from models, tools and stored sessions is made safe (terminal/safe-text.ts) before it is printed: it cannot
//      send escape sequences.

import type { Line } from "../terminal/prompt.ts";
import type { Workspace } from "../workspace.ts";
import type { ChatContext } from "./follow.ts";
import type { PendingResult } from "./pending-prompts.ts";
import type { DurableOptions, SessionView, TurnHandle } from "everturn/runtime";

import { brief, plural } from "../commands/text.ts";
import { fit } from "../terminal/cells.ts";
import { wrapRuns } from "../terminal/flow.ts";
import { askLine } from "../terminal/prompt.ts";
import { safeText } from "../terminal/safe-text.ts";
import { plain } from "../terminal/style.ts";
import { leaseMs } from "../workspace.ts";
import { errorText, followTurn, quietNoteMs } from "./follow.ts";
import { frameLines } from "./frame-lines.ts";
import { askPending } from "./pending-prompts.ts";
import { runCommand } from "./run-command.ts";
import { commands, complete, matching, parseInput } from "./slash-commands.ts";
import { promptSign, renderTranscript } from "./transcript.ts";
import { historyPath, TypedHistory } from "./typed-history.ts";

/** How many messages of a resumed session are shown. */
const messagesShown = 6;
/** Two Ctrl-C at an empty prompt within this time exit, in milliseconds. */
const doubleInterruptMs = 2000;
/** How often the chat tries to recover a turn that another process drives, in milliseconds. */
const recoverEveryMs = 1000;

/** Whether the conversation continues or the user has exited. */
type Status = "continue" | "exit";

/**
 * The note below a turn whose lease another process holds. A process that was killed cannot release its lease, and the
 * chat cannot see whether the process is alive: it waits until the lease expires, at most one lease time after the last
 * event. A lease that lasts longer was renewed.
 */
function drivenElsewhere(quietMs: number): string {
  const expiresInMs = leaseMs + recoverEveryMs - quietMs;
  if (quietMs < quietNoteMs || expiresInMs <= 0) {
    return "Another process drives this turn; if it stops, the turn continues here.";
  }
  const [quiet, left] = [Math.floor(quietMs / 1000), Math.ceil(expiresInMs / 1000)];
  return `Waiting: the process that drives this turn has sent nothing for ${quiet} s. If it has stopped, its lease expires in at most ${left} s, and the turn continues here.`;
}

export class Conversation {
  readonly context: ChatContext;
  readonly workspace: Workspace;
  /** The session; `null`: the first message creates one. */
  id: string | null = null;
  /** The model chosen with `/model`; `null`: that of the settings. */
  model: string | null = null;
  readonly #typed: TypedHistory;
  /** The turn to show next. */
  #turn: TurnHandle | null = null;
  /** Unsent text, shown at the next prompt. */
  #draft = "";
  #interruptedAt = Number.NEGATIVE_INFINITY;
  /** Whether the terminal was closed or the process was asked to stop. */
  #isGone = false;
  /** Whether another process holds the lease of the turn that is shown. */
  #isElsewhere = false;

  constructor(context: ChatContext, workspace: Workspace) {
    this.context = context;
    this.workspace = workspace;
    this.#typed = new TypedHistory(historyPath(workspace.database.path));
    context.screen.terminal.onGone(() => (this.#isGone = true));
  }

  /** Runs until the user exits. Returns whether a turn is still open. */
  async run(): Promise<{ readonly leftOpen: boolean }> {
    for (;;) {
      const status = await this.#showTurns().catch((error: unknown) => this.#showError(error));
      if (status === "exit" || this.#isGone) break;
      const line = await this.#prompt();
      const after = await this.#handleLine(line).catch((error: unknown) => this.#showError(error));
      if (after === "exit") break;
    }
    const view = this.id === null ? null : await this.context.sessions.get(this.id, { messages: 0 }).catch(() => null);
    return { leftOpen: view !== null && view.openTurn !== null && view.openTurn.status !== "parked" };
  }

  /** Options of the verbs that start a turn. */
  get options(): DurableOptions {
    const { engineName } = this.workspace;
    const engine = engineName === "default" ? {} : { engine: engineName };
    return this.model === null ? engine : { ...engine, model: this.model };
  }

  /** Continues a session and shows its last messages. Returns `false` if it does not exist. */
  async resume(id: string): Promise<boolean> {
    const view = await this.context.sessions.get(id, { messages: messagesShown });
    if (view === null) return false;
    this.id = id;
    this.say(`Session ${id} · ${plural(view.length, "message")}`, "dim");
    const { messages } = view.session.thread;
    if (view.length > messages.length)
      this.say(`  … ${view.length - messages.length} earlier messages (/show prints all)`, "dim");
    const notes = await frameLines(this.context.sessions, id, view.length - messages.length);
    this.context.screen.print(
      renderTranscript(messages, { width: this.context.screen.width, colours: this.context.colours, notes }),
    );
    this.#showParked(view);
    return true;
  }

  follow(turn: TurnHandle): void {
    if (turn.turnId !== null) this.#turn = turn;
  }

  say(text: string, look: "plain" | "dim" | "yellow" | "red" = "plain"): void {
    const { screen, colours } = this.context;
    const style = look === "plain" ? plain : look === "dim" ? ({ dim: true } as const) : ({ hue: look } as const);
    const lines = wrapRuns([{ text: safeText(text), style }], { width: screen.width, colours: colours.enabled });
    screen.print(`${lines}\n`);
  }

  /** Shows turns and asks for what the session waits for, until the next message is needed. */
  async #showTurns(): Promise<Status> {
    for (;;) {
      const turn = this.#turn ?? (await this.#nextTurn());
      this.#turn = null;
      if (turn === "ended") return "exit";
      if (typeof turn === "string") return "continue";
      const { type, typed } = await followTurn(this.context, turn, {
        typed: this.#draft,
        whenBusy: this.workspace.engine.whenBusy ?? "steer",
        messageOptions: this.options,
        whereabouts: (quietMs) => (this.#isElsewhere ? drivenElsewhere(quietMs) : ""),
      });
      this.#isElsewhere = false;
      this.#draft = typed;
      if (type === "left") return "exit";
      // Attaching again would fail again; the next message retries.
      if (type === "failed") return "continue";
    }
  }

  /** The open turn, or the turn that answers to pending calls start. */
  async #nextTurn(): Promise<PendingResult> {
    if (this.id === null) return "nothing";
    const view = await this.context.sessions.get(this.id, { messages: 0 });
    if (view?.openTurn === null) return askPending(this.context, this.id);
    if (view === null || view.openTurn.status === "parked") return "nothing";
    const { turnId } = view.openTurn;
    void this.#recoverWhenAbandoned(this.id, turnId);
    return this.context.sessions.attach(this.id, turnId);
  }

  /** Drives an abandoned turn here as soon as the lease of its process has expired. */
  async #recoverWhenAbandoned(id: string, turnId: string): Promise<void> {
    const { sessions } = this.context;
    for (;;) {
      const open = (await sessions.get(id, { messages: 0 }).catch(() => null))?.openTurn ?? null;
      if (this.#isGone || open === null || open.turnId !== turnId || open.status === "parked") return;
      const { pickedUp } = await sessions.recover(id).catch(() => ({ pickedUp: 0 }));
      this.#isElsewhere = pickedUp === 0;
      if (pickedUp > 0) return;
      await new Promise((resolve) => setTimeout(resolve, recoverEveryMs).unref());
    }
  }

  #prompt(): Promise<Line> {
    const { screen, colours } = this.context;
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

  async #handleLine(line: Line): Promise<Status> {
    if (line.type === "ended") return "exit";
    if (line.type === "interrupted") {
      const { now } = this.context;
      const isSecond = line.text === "" && now() - this.#interruptedAt < doubleInterruptMs;
      if (line.text === "" && !isSecond) this.say("Press Ctrl-C again or Ctrl-D to exit.", "dim");
      this.#interruptedAt = line.text === "" ? now() : Number.NEGATIVE_INFINITY;
      return isSecond ? "exit" : "continue";
    }
    this.#typed.add(line.text);
    const input = parseInput(line.text);
    switch (input.type) {
      case "nothing":
        return "continue";
      case "message":
        await this.#send(input.text);
        return "continue";
      case "unknown": {
        const suggestions = input.suggestions.map((name) => `/${name}`).join(" or ");
        this.say(
          `Unknown command /${brief(input.word, 30)}. ${suggestions === "" ? "/help lists the commands." : `Did you mean ${suggestions}?`}`,
          "yellow",
        );
        return "continue";
      }
      case "command":
        return (await runCommand(this, input.name, input.argument)) === "quit" ? "exit" : "continue";
    }
  }

  async #send(text: string): Promise<void> {
    const { sessions } = this.context;
    if (this.id === null) {
      this.#turn = await sessions.start(text, this.options);
      this.id = this.#turn.sessionId;
      return;
    }
    const view = await sessions.get(this.id, { messages: 0 });
    if (view === null) throw new Error(`session ${this.id} has been deleted; /new starts another one`);
    if (view.openTurn?.status === "parked") {
      this.#draft = text;
      return this.#showParked(view);
    }
    if (view.session.status === "awaiting_tools") {
      // The pending call is asked for next; the typed text stays at the prompt.
      this.#draft = text;
      return this.say("A pending request needs your answer first.", "yellow");
    }
    // A failed session is recovered before the next message.
    if (view.session.status === "error") await sessions.recover(this.id);
    this.#turn = await sessions.send(this.id, text, this.options);
  }

  #showParked({ openTurn }: SessionView): void {
    if (openTurn?.status !== "parked") return;
    if (openTurn.failure !== null) this.say(`✗ ${openTurn.failure.message}`, "red");
    this.say(
      "The turn of this session is parked: the current code cannot replay it. /continue ends the turn and continues the session.",
      "yellow",
    );
  }

  #showError(error: unknown): Status {
    this.say(`✗ ${errorText(error)}`, "red");
    return "continue";
  }
}
