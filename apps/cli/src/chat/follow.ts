// Shows one turn on the screen until it ends or the user exits. Ctrl-C cancels the turn durably, in whichever process
// it runs; a second Ctrl-C exits. A line that is typed and sent meanwhile is delivered by the busy policy of the chat;
// unsent text is returned as a draft.

import type { Live, Screen } from "../terminal/screen.ts";
import type { Colours } from "../terminal/style.ts";
import type { WhenBusy } from "everturn";
import type { DurableOptions, Runtime, RuntimeEvent, TurnHandle } from "everturn/runtime";

import { editor, press } from "../terminal/editor.ts";
import { wrap } from "../terminal/flow.ts";
import { editorRows } from "../terminal/prompt.ts";
import { safeText } from "../terminal/safe-text.ts";
import { noLive } from "../terminal/screen.ts";
import { spinnerEveryMs } from "../terminal/spinner.ts";
import { promptSign } from "./transcript.ts";
import { ChatView } from "./view.ts";

/** How long the exit waits for a pending cancel to be stored, in milliseconds. */
const cancelWaitMs = 2000;

/**
 * The time without an event after which a note about the driving process interrupts an unfinished text, in
 * milliseconds.
 */
export const quietNoteMs = 2000;

/** What the parts of the chat share. */
export type ChatContext = {
  readonly sessions: Runtime;
  readonly screen: Screen;
  readonly colours: Colours;
  readonly now: () => number;
};

export type Followed = {
  /** `left`: the user exits. `failed`: this process cannot continue the turn, which is still open. */
  readonly type: "ended" | "left" | "failed";
  /** Unsent text. */
  readonly typed: string;
};

type Occurrence =
  | { readonly type: "event"; readonly event: RuntimeEvent }
  | { readonly type: "end" }
  | { readonly type: "left" }
  | { readonly type: "failed"; readonly error: unknown };

/** What is shown after a line that was sent while a turn runs. */
const sentNotes = { steer: "", queue: "  (after this turn)", interrupt: "  (cancels this turn)", reject: "" } as const;

export type FollowOptions = {
  /** What happens to a line that is sent while the turn runs. */
  readonly whenBusy: WhenBusy;
  /** Options of a message that starts a turn. */
  readonly messageOptions: DurableOptions;
  /** Text that is at the prompt already. */
  readonly typed: string;
  /**
   * Returns a note about the process that drives the turn, if it is another one; otherwise an empty text. Called for
   * every redraw. `quietMs`: the time since the last event of the turn, in milliseconds.
   */
  readonly whereabouts: (quietMs: number) => string;
};

/** Shows a turn. Returns when the turn has ended, the user exits, or the turn cannot be followed. */
export async function followTurn(
  context: ChatContext,
  handle: TurnHandle,
  { typed, whereabouts, whenBusy, messageOptions }: FollowOptions,
): Promise<Followed> {
  const { sessions, screen, colours, now } = context;
  const { sessionId, turnId } = handle;
  const view = new ChatView({ width: () => screen.width, colours, since: now() });
  let draft = editor([], typed);
  let cancelling: Promise<unknown> | null = null;
  let lastEventAt = now();
  const live = (): Live => {
    const running = view.live(now());
    const where = running.length === 0 ? "" : whereabouts(now() - lastEventAt);
    const rows = where === "" ? running : [...running, ...noteRows(where, screen.width).map(colours.dim)];
    if (draft.text === "") return { rows, cursor: null };
    const line = editorRows(draft, colours.dim(promptSign), [], screen.width);
    const cursor = line.cursor === null ? null : { ...line.cursor, row: line.cursor.row + rows.length };
    return { rows: [...rows, ...line.rows], cursor };
  };
  const draw = (): void => {
    // No live rows can be drawn below an unfinished line of text. If its process has stopped, nothing would show that
    // the chat waits for the lease: the text is ended, and the live rows appear.
    const isStalled = !view.isOver && view.live(now()).length === 0 && now() - lastEventAt >= quietNoteMs;
    if (isStalled && whereabouts(now() - lastEventAt) !== "") screen.print(view.close(), noLive);
    screen.live(live());
  };
  const print = (text: string): void => screen.print(text, live());
  const failed = (error: unknown): void => print(view.note(`✗ ${errorText(error)}`, { hue: "red" }));
  const cancel = (): void => {
    view.cancelling();
    print(view.close());
    const which = turnId === null ? {} : { turnId };
    cancelling = sessions.cancel(sessionId, { ...which, origin: "terminal", reason: "Ctrl-C" }).catch(failed);
  };
  const send = (text: string): void => {
    if (whenBusy === "reject" && text.trim() !== "") {
      draft = editor([], text);
      return print(view.note("The turn is still running. Press Enter again when it has ended.", { dim: true }));
    }
    draft = editor();
    if (text.trim() === "") return draw();
    print(view.note(`${promptSign}${safeText(text.trim())}${sentNotes[whenBusy]}`, { dim: true }));
    sessions.send(sessionId, text.trim(), { ...messageOptions, whenBusy }).catch(failed);
  };

  const offs: (() => void)[] = [];
  const left = new Promise<Occurrence>((resolve) => {
    const leave = (): void => resolve({ type: "left" });
    offs.push(screen.terminal.onGone(leave));
    screen.terminal.listen((key) => {
      const edited = press(draft, key);
      switch (edited.type) {
        case "interrupted":
          return cancelling === null ? cancel() : leave();
        case "ended":
          return leave();
        case "submitted":
          return send(edited.text);
        case "redrawing":
          return screen.clear();
        case "completing":
        case "editing":
          draft = edited.editor;
          draw();
      }
    });
  });
  // If this process drives the turn and fails to continue it, no event reports that; only the result rejects.
  const driveFailed = new Promise<Occurrence>((resolve) => {
    handle.result.catch((error: unknown) => resolve({ type: "failed", error }));
  });
  const ticking = setInterval(draw, spinnerEveryMs);
  const events = handle.events[Symbol.asyncIterator]();
  const next = async (): Promise<Occurrence> => {
    const { done, value } = await events.next();
    return done === true ? { type: "end" } : { type: "event", event: value };
  };
  draw();
  try {
    for (;;) {
      const occurrence = await Promise.race([
        left,
        driveFailed,
        next().catch((error: unknown): Occurrence => ({ type: "failed", error })),
      ]);
      if (occurrence.type === "event") {
        lastEventAt = now();
        print(view.apply(occurrence.event, now()));
        continue;
      }
      if (occurrence.type === "failed") failed(occurrence.error);
      if (occurrence.type === "end" && !view.isOver) print(await parkedText(handle, view));
      return { type: occurrence.type === "end" ? "ended" : occurrence.type, typed: draft.text };
    }
  } finally {
    clearInterval(ticking);
    for (const off of offs) off();
    screen.terminal.listen(null);
    screen.print(view.close(), noLive);
    void events.return?.();
    // Wait until a requested cancel is stored.
    await Promise.race([cancelling, new Promise((resolve) => setTimeout(resolve, cancelWaitMs).unref())]);
  }
}

/** The text for a turn that was parked because the current code cannot replay it; empty for other ends. */
async function parkedText(handle: TurnHandle, view: ChatView): Promise<string> {
  const { status, failure } = await handle.result;
  if (status !== "parked") return "";
  const failureLine = failure === null ? "" : view.failure(failure);
  return (
    failureLine +
    view.note(
      "The turn is parked: the current code cannot replay it. /continue ends the turn and continues the session from before it.",
    )
  );
}

/** A note below the live rows, indented and wrapped. */
function noteRows(note: string, width: number): readonly string[] {
  return wrap(note, Math.max(10, width - 3))
    .split("\n")
    .map((row) => `  ${row}`);
}

/** The message of a thrown value, safe for the terminal. */
export function errorText(error: unknown): string {
  return safeText(error instanceof Error ? error.message : String(error));
}
