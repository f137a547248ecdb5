// Runs the scenario of the demo as a client would: sends the customer's messages, reads the events of each turn from
// the database by cursor, answers questions and approvals, and kills the worker in the middle of the reply after the
// approval. It drives no turn itself.

import type { AnswerPrompt } from "./answer-prompt.ts";
import type { Screen } from "./screen.ts";
import type { Worker, Workers } from "./workers.ts";
import type { Json, TurnEvent, AssistantMessage, PendingToolCall } from "everturn";
import type { Runtime, RuntimeEvent } from "everturn/runtime";

import { callPath, messageText, visibleText } from "everturn";
import { inspection } from "everturn/http";

import { effectsText, repliesIn, seconds } from "./record.ts";
import { askTool, complaint, preference, reminder } from "./refund-scenario.ts";

export type ScenarioContext = {
  readonly sessions: Runtime;
  readonly id: string;
  readonly engine: string;
  readonly screen: Screen;
  readonly prompt: AnswerPrompt;
  readonly workers: Workers;
  readonly elapsed: () => number;
  /** How many characters of the reply are read before the worker is killed. */
  readonly killAfter: number;
  readonly signal: AbortSignal;
};

/** The kill of a worker, and its replacement. */
export type Kill = {
  readonly pid: number;
  readonly turnId: string;
  /** The lease epoch of the killed worker. */
  readonly epoch: number;
  /** When it was killed, in milliseconds since the start of the demo. */
  readonly at: number;
  /** The process id of the worker that replaces it. */
  readonly next: number;
  /** When the first event of the replacement was read; `null`: none was. */
  readonly resumedAt: number | null;
};

/** What the reader received. */
export type ScenarioResult = {
  readonly turns: readonly string[];
  /** Sequence numbers of the stored events, in the order in which they were received. */
  readonly sequences: readonly number[];
  /** How many times the reader connected, each time with its last cursor. */
  readonly visits: number;
  /** Each reply as assembled from deltas, and as stored. */
  readonly replies: readonly { readonly received: string; readonly stored: string }[];
  readonly kill: Kill | null;
};

/** How many reminders a real model gets that stops before it has called `refund`. */
const maxReminders = 2;

export class ScenarioRunner {
  readonly #context: ScenarioContext;
  readonly #worker: Worker;
  readonly #turns: string[] = [];
  readonly #sequences: number[] = [];
  readonly #replies: { readonly received: string; readonly stored: string }[] = [];
  #cursor: string | null = null;
  #visits = 0;
  /** The deltas of the current reply, and whether they are printed. */
  #received = "";
  #isShown = true;
  /** Number of complete replies in the newest turn. */
  #repliesOfTurn = 0;
  #decided = false;
  #reminders = 0;
  #kill: Kill | null = null;

  constructor(context: ScenarioContext, worker: Worker) {
    this.#context = context;
    this.#worker = worker;
  }

  /** Runs the scenario until nothing is pending. */
  async run(): Promise<ScenarioResult> {
    const { sessions, id, engine, screen, signal } = this.#context;
    screen.line("customer", complaint);
    await sessions.start(complaint, { id, engine });
    do await this.#readTurn();
    while (!signal.aborted && (await this.#answerPending()));
    screen.close();
    const [turns, sequences, replies] = [this.#turns, this.#sequences, this.#replies];
    return { turns, sequences, replies, visits: this.#visits, kill: this.#kill };
  }

  /** Reads the events after the cursor until a turn has ended. */
  async #readTurn(): Promise<void> {
    const { sessions, id, signal } = this.#context;
    this.#visits += 1;
    const after = this.#cursor === null ? {} : { after: this.#cursor };
    for await (const event of sessions.events(id, { ...after, signal })) {
      this.#cursor = event.cursor;
      this.#receive(event);
      if (this.#isTimeToKill()) await this.#killWorker(event);
      if (event.sequence !== null && event.event.type === "chat_completed") return;
    }
  }

  #receive(runtimeEvent: RuntimeEvent): void {
    const { sequence, turnId, event } = runtimeEvent;
    if (sequence !== null) this.#sequences.push(sequence);
    if (!this.#turns.includes(turnId)) {
      this.#turns.push(turnId);
      this.#repliesOfTurn = 0;
    }
    if (this.#kill !== null && isFirstOfReplacement(runtimeEvent, this.#kill)) this.#onTakeover(this.#kill);
    this.#show(event);
  }

  #show(event: TurnEvent): void {
    const { screen } = this.#context;
    switch (event.type) {
      case "text_delta":
        this.#received += event.delta;
        // Deltas that the killed worker wrote may be read after the kill; they are not printed.
        return this.#isShown ? screen.say("agent", event.delta) : undefined;
      case "message_completed":
        return this.#onReply(event.message);
      case "tool_progress":
        return screen.line("", `${event.name}: ${readable(event.progress)}`, "dim");
      case "tool_execution_completed": {
        if (event.result.type !== "success") return undefined;
        const took = event.durationMs === null ? "" : ` (${seconds(event.durationMs)})`;
        return screen.line("result", `${event.name}: ${readable(event.result.value)}${took}`, "calm");
      }
      case "step_reset":
        this.#received = "";
        this.#isShown = true;
        return screen.line("reset", "The reply starts again. Readers discard the part above.", "warm");
      case "retry_scheduled":
        return screen.line("retry", `${event.error.message}; retry in ${seconds(event.delayMs)}`, "warm");
      case "error":
        return screen.line("error", event.error.message, "bad");
      default:
        return undefined;
    }
  }

  /** A reply is stored. Prints it completely if its deltas were not printed. */
  #onReply(message: AssistantMessage): void {
    const { screen } = this.#context;
    const stored = messageText(message);
    if (this.#received !== "") this.#replies.push({ received: this.#received, stored });
    if ((this.#received === "" || !this.#isShown) && stored !== "") screen.say("agent", stored);
    screen.close();
    this.#repliesOfTurn += 1;
    this.#received = "";
    this.#isShown = true;
    for (const { name, arguments: args } of message.toolCalls) {
      // A question is printed when it is pending.
      if (name !== askTool) screen.line("call", `${name} ${readable(args)}`.trim(), "calm");
    }
  }

  // Crash and takeover.

  #isTimeToKill(): boolean {
    return this.#kill === null && this.#decided && this.#received.length >= this.#context.killAfter;
  }

  async #killWorker({ turnId, delta }: RuntimeEvent): Promise<void> {
    const { workers, screen, elapsed, sessions, id } = this.#context;
    const { pid } = this.#worker;
    await workers.kill(pid);
    const at = elapsed();
    screen.gap();
    screen.line("kill -9", `Worker ${pid} was killed in the middle of a sentence.`, "bad");
    const { rows } = (await inspection(sessions.source).export(id, turnId)).data;
    const isRecorded = repliesIn(rows) > this.#repliesOfTurn;
    const reply = isRecorded ? "This reply is stored too." : "This reply is not stored.";
    screen.line("", `Stored for this turn: ${effectsText(rows)}. ${reply}`, "dim");
    const next = workers.start().pid;
    screen.line("worker", `Process ${next} starts. It shares only the database file.`, "good");
    this.#kill = { pid, turnId, epoch: delta?.attempt.epoch ?? 0, at, next, resumedAt: null };
    this.#isShown = false;
  }

  #onTakeover(kill: Kill): void {
    const { screen, elapsed } = this.#context;
    const resumedAt = elapsed();
    this.#kill = { ...kill, resumedAt };
    screen.line(
      "worker",
      `Process ${kill.next} continues the turn, ${seconds(resumedAt - kill.at)} after the kill.`,
      "good",
    );
  }

  // Answers.

  /**
   * Answers pending approvals and questions after a turn. Returns `false` if nothing is pending and no turn will
   * follow.
   */
  async #answerPending(): Promise<boolean> {
    const { sessions, id, signal } = this.#context;
    const view = await sessions.get(id, { messages: 1 });
    if (view === null || view.session.status === "error") return false;
    const { status, pendingToolCalls } = view.session;
    for (const call of pendingToolCalls.filter(({ reason }) => reason === "approval")) {
      await this.#approve(call);
      if (signal.aborted) return false;
    }
    const question = pendingToolCalls.find(({ reason }) => reason === "question");
    if (question !== undefined) return this.#reply(question);
    return pendingToolCalls.length > 0 || (status === "completed" && this.#remind());
  }

  async #reply({ question }: PendingToolCall): Promise<boolean> {
    const { sessions, id, engine, screen, prompt, signal } = this.#context;
    screen.line("question", question ?? "", "warm");
    const { value } = await prompt.askText("customer", preference);
    if (signal.aborted) return false;
    await sessions.reply(id, value, { engine });
    return true;
  }

  async #approve(call: PendingToolCall): Promise<void> {
    const { sessions, id, screen, prompt, signal } = this.#context;
    screen.line("approval", `${callPath(call.shown)} pays money: may it run?`, "warm");
    screen.line("", visibleText(JSON.stringify(call.shown.arguments)), "dim");
    const { value, by } = await prompt.askApproval("shop");
    if (signal.aborted) return;
    this.#decided = true;
    const { digest } = call;
    await sessions.decide(
      id,
      call.id,
      value ? { type: "approve", by, digest } : { type: "deny", by, digest, reason: "the shop denied the refund" },
    );
  }

  /** Reminds a real model that has stopped before it called `refund`. */
  async #remind(): Promise<boolean> {
    const { sessions, id, engine, screen } = this.#context;
    if (this.#decided || this.#reminders === maxReminders) return false;
    this.#reminders += 1;
    screen.line("customer", reminder);
    await sessions.reply(id, reminder, { engine });
    return true;
  }
}

/** Returns whether this is the first event of the worker that replaced the killed one: its lease epoch is higher. */
function isFirstOfReplacement({ event, delta }: RuntimeEvent, { epoch, resumedAt }: Kill): boolean {
  const attempt = event.type === "step_reset" ? event.attempt : delta?.attempt;
  return resumedAt === null && (attempt?.epoch ?? 0) > epoch;
}

/** Formats a value for reading: the fields of an object as `name value`, separated by commas. */
function readable(value: Json): string {
  if (typeof value === "string") return value;
  if (value === null || typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, field]) => `${name} ${typeof field === "string" ? field : JSON.stringify(field)}`)
    .join(", ");
}
