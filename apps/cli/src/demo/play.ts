// The play: accepts what the customer says, reads what happens from the database as any reader would, answers when something waits, and kills the
// worker in the middle of the reply that follows the decision about the money. It drives nothing itself.

import type { Person } from "./person.ts";
import type { Screen } from "./screen.ts";
import type { Worker, Workers } from "./workers.ts";
import type { Json, TurnEvent } from "everturn";
import type { AssistantMessage, PendingToolCall } from "everturn/model";
import type { Runtime, RuntimeEvent } from "everturn/runtime";

import { messageText } from "everturn/model";

import { effectsIn, renderEffects, seconds } from "./record.ts";
import { askTool, complaint, preference, reminder } from "./story.ts";

export type Stage = {
  readonly sessions: Runtime;
  readonly id: string;
  readonly engine: string;
  readonly screen: Screen;
  readonly person: Person;
  readonly workers: Workers;
  readonly elapsed: () => number;
  /** How much of the reply is seen before the worker is killed. */
  readonly killAfter: number;
  readonly signal: AbortSignal;
};

/** A worker that was killed, and what came after it. */
export type Kill = {
  readonly pid: number;
  readonly turnId: string;
  /** The epoch of the lease it had. */
  readonly epoch: number;
  readonly at: number;
  /** The worker that was started in its place. */
  readonly next: number;
  /** When the reader first heard from that one; `null`: it did not. */
  readonly heardAgainAt: number | null;
};

/** What the reader saw. */
export type Played = {
  readonly turns: readonly string[];
  /** The places of the entries it was told, in the order it was told them. */
  readonly sequences: readonly number[];
  /** How often it came, each time with the cursor it had left with. */
  readonly visits: number;
  /** Each reply as it was put together from pieces, and as it is stored. */
  readonly replies: readonly { readonly heard: string; readonly stored: string }[];
  readonly kill: Kill | null;
};

/** How often a model that stops too early is asked to go on. */
const mostReminders = 2;

export class Play {
  readonly #stage: Stage;
  readonly #worker: Worker;
  readonly #turns: string[] = [];
  readonly #sequences: number[] = [];
  readonly #replies: { readonly heard: string; readonly stored: string }[] = [];
  #cursor: string | null = null;
  #visits = 0;
  /** What has been heard of the reply that is being given, and whether all of it is on the screen. */
  #heard = "";
  #isShown = true;
  /** Replies of the newest turn. */
  #repliesOfTurn = 0;
  #decided = false;
  #reminders = 0;
  #kill: Kill | null = null;

  constructor(stage: Stage, worker: Worker) {
    this.#stage = stage;
    this.#worker = worker;
  }

  async run(): Promise<Played> {
    const { sessions, id, engine, screen, signal } = this.#stage;
    screen.line("customer", complaint);
    await sessions.start(complaint, { id, engine });
    do await this.#readTurn();
    while (!signal.aborted && (await this.#goOn()));
    screen.close();
    const [turns, sequences, replies] = [this.#turns, this.#sequences, this.#replies];
    return { turns, sequences, replies, visits: this.#visits, kill: this.#kill };
  }

  /** Reads from behind the cursor until a turn has ended, and leaves. */
  async #readTurn(): Promise<void> {
    const { sessions, id, signal } = this.#stage;
    this.#visits += 1;
    const after = this.#cursor === null ? {} : { after: this.#cursor };
    for await (const told of sessions.events(id, { ...after, signal })) {
      this.#cursor = told.cursor;
      this.#take(told);
      if (this.#isTime()) await this.#killWorker(told);
      if (told.sequence !== null && told.event.type === "chat_completed") return;
    }
  }

  #take(told: RuntimeEvent): void {
    const { sequence, turnId, event } = told;
    if (sequence !== null) this.#sequences.push(sequence);
    if (!this.#turns.includes(turnId)) {
      this.#turns.push(turnId);
      this.#repliesOfTurn = 0;
    }
    if (this.#kill !== null && isFromNext(told, this.#kill)) this.#takenOver(this.#kill);
    this.#show(event);
  }

  #show(event: TurnEvent): void {
    const { screen } = this.#stage;
    switch (event.type) {
      case "text_delta":
        this.#heard += event.delta;
        // What a worker wrote last may be read when it is already gone.
        return this.#isShown ? screen.say("agent", event.delta) : undefined;
      case "message_completed":
        return this.#replied(event.message);
      case "tool_progress":
        return screen.line("", `${event.name}: ${shown(event.progress)}`, "dim");
      case "tool_execution_completed": {
        if (event.result.type !== "success") return undefined;
        const took = event.durationMs === null ? "" : ` (${seconds(event.durationMs)})`;
        return screen.line("result", `${event.name}: ${shown(event.result.value)}${took}`, "calm");
      }
      case "step_reset":
        this.#heard = "";
        this.#isShown = true;
        return screen.line("reset", "What was said of this reply is void: readers drop it.", "warm");
      case "retry_scheduled":
        return screen.line("retry", `${event.error.message}; again in ${seconds(event.delayMs)}`, "warm");
      case "error":
        return screen.line("error", event.error.message, "bad");
      case "message_started":
      case "text_completed":
      case "reasoning_delta":
      case "reasoning_completed":
      case "tool_call_started":
      case "tool_call_delta":
      case "tool_call_completed":
      case "usage":
      case "raw_chunk":
      case "tool_execution_started":
      case "tool_result_encoded":
      case "ask_user_requested":
      case "approval_requested":
      case "tool_halt":
      case "turn_started":
      case "input_accepted":
      case "step_completed":
      case "chat_completed":
        return undefined;
    }
  }

  /** A reply is on record: whoever has not seen its pieces is told the whole. */
  #replied(message: AssistantMessage): void {
    const { screen } = this.#stage;
    const stored = messageText(message);
    if (this.#heard !== "") this.#replies.push({ heard: this.#heard, stored });
    if ((this.#heard === "" || !this.#isShown) && stored !== "") screen.say("agent", stored);
    screen.close();
    this.#repliesOfTurn += 1;
    this.#heard = "";
    this.#isShown = true;
    for (const { name, arguments: args } of message.toolCalls) {
      // A question is shown when it is asked.
      if (name !== askTool) screen.line("call", `${name} ${shown(args)}`.trim(), "calm");
    }
  }

  // The crash.

  #isTime(): boolean {
    return this.#kill === null && this.#decided && this.#heard.length >= this.#stage.killAfter;
  }

  async #killWorker({ turnId, delta }: RuntimeEvent): Promise<void> {
    const { workers, screen, elapsed, sessions, id } = this.#stage;
    const { pid } = this.#worker;
    await workers.kill(pid);
    const at = elapsed();
    screen.gap();
    screen.line("kill -9", `Worker ${pid} is gone, in the middle of a sentence.`, "bad");
    const effects = effectsIn((await sessions.export(id, turnId)).data.rows);
    const isRecorded = effects.replies > this.#repliesOfTurn;
    const reply = isRecorded ? "This reply is among them." : "This reply is not.";
    screen.line("", `In the file, of this turn: ${renderEffects(effects)}. ${reply}`, "dim");
    const next = workers.start().pid;
    screen.line("worker", `Process ${next} starts. All it knows is the file.`, "good");
    this.#kill = { pid, turnId, epoch: delta?.attempt.epoch ?? 0, at, next, heardAgainAt: null };
    this.#isShown = false;
  }

  #takenOver(kill: Kill): void {
    const { screen, elapsed } = this.#stage;
    const heardAgainAt = elapsed();
    this.#kill = { ...kill, heardAgainAt };
    screen.line("worker", `Process ${kill.next} goes on, ${seconds(heardAgainAt - kill.at)} after the kill.`, "good");
  }

  // Answers.

  /** Answers whatever waits after a turn. `false`: nothing does, and nothing more will happen. */
  async #goOn(): Promise<boolean> {
    const { sessions, id, signal } = this.#stage;
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
    const { sessions, id, engine, screen, person, signal } = this.#stage;
    screen.line("question", question ?? "", "warm");
    const { value } = await person.answer("customer", preference);
    if (signal.aborted) return false;
    await sessions.reply(id, value, { engine });
    return true;
  }

  async #approve(call: PendingToolCall): Promise<void> {
    const { sessions, id, screen, person, signal } = this.#stage;
    screen.line("approval", `${call.name} moves money: may it run?`, "warm");
    const { value, by } = await person.consent("shop");
    if (signal.aborted) return;
    this.#decided = true;
    await sessions.decide(
      id,
      call.id,
      value ? { type: "approve", by } : { type: "deny", by, reason: "the shop said no" },
    );
  }

  /** A real model may stop before it has come to the point. */
  async #remind(): Promise<boolean> {
    const { sessions, id, engine, screen } = this.#stage;
    if (this.#decided || this.#reminders === mostReminders) return false;
    this.#reminders += 1;
    screen.line("customer", reminder);
    await sessions.reply(id, reminder, { engine });
    return true;
  }
}

/** Was this said by the worker after the one that was killed, and is it the first that is? */
function isFromNext({ event, delta }: RuntimeEvent, { epoch, heardAgainAt }: Kill): boolean {
  const attempt = event.type === "step_reset" ? event.attempt : delta?.attempt;
  return heardAgainAt === null && (attempt?.epoch ?? 0) > epoch;
}

/** As a person would write it down: the fields of an object, one after the other. */
function shown(value: Json): string {
  if (typeof value === "string") return value;
  if (value === null || typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, field]) => `${name} ${typeof field === "string" ? field : JSON.stringify(field)}`)
    .join(", ");
}
