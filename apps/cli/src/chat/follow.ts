// Shows one turn on the screen until it ends or the person leaves. Ctrl-C cancels it, for good and wherever it runs; a second one leaves. What is typed
// meanwhile and sent is said to the turn; what is typed and not sent is still there afterwards.

import type { Live, Screen } from "../terminal/screen.ts";
import type { Colours } from "../terminal/style.ts";
import type { Runtime, RuntimeEvent, TurnHandle } from "everturn/runtime";

import { fit } from "../terminal/cells.ts";
import { editor, press } from "../terminal/editor.ts";
import { editorRows } from "../terminal/prompt.ts";
import { safeText } from "../terminal/safe-text.ts";
import { noLive } from "../terminal/screen.ts";
import { spinnerEveryMs } from "../terminal/spinner.ts";
import { promptSign } from "./transcript.ts";
import { ChatView } from "./view.ts";

/** How long somebody who leaves waits for the cancel they asked for. */
const patienceMs = 2000;

export type ChatDesk = {
  readonly sessions: Runtime;
  readonly screen: Screen;
  readonly colours: Colours;
  readonly now: () => number;
};

export type Followed = {
  /** `failed`: this process cannot go on with it; it is still open. */
  readonly type: "ended" | "left" | "failed";
  /** What was typed and not sent. */
  readonly typed: string;
};

type Happened =
  | { readonly type: "event"; readonly event: RuntimeEvent }
  | { readonly type: "end" }
  | { readonly type: "left" }
  | { readonly type: "failed"; readonly error: unknown };

export type FollowOptions = {
  /** What stands at the prompt already. */
  readonly typed: string;
  /** Where the turn runs, if that is not here; asked again and again. */
  readonly whereabouts: () => string;
};

export async function followTurn(
  desk: ChatDesk,
  handle: TurnHandle,
  { typed, whereabouts }: FollowOptions,
): Promise<Followed> {
  const { sessions, screen, colours, now } = desk;
  const { sessionId, turnId } = handle;
  const view = new ChatView({ width: () => screen.width, colours, since: now() });
  let aside = editor([], typed);
  let cancelling: Promise<unknown> | null = null;
  const live = (): Live => {
    const running = view.live(now());
    const where = running.length === 0 ? "" : whereabouts();
    const rows = where === "" ? running : [...running, colours.dim(fit(`  ${where}`, screen.width - 1))];
    if (aside.text === "") return { rows, cursor: null };
    const line = editorRows(aside, colours.dim(promptSign), [], screen.width);
    const cursor = line.cursor === null ? null : { ...line.cursor, row: line.cursor.row + rows.length };
    return { rows: [...rows, ...line.rows], cursor };
  };
  const draw = (): void => screen.live(live());
  const print = (text: string): void => screen.print(text, live());
  const failed = (error: unknown): void => print(view.note(`✗ ${errorText(error)}`, { hue: "red" }));
  const cancel = (): void => {
    view.cancelling();
    print(view.close());
    const which = turnId === null ? {} : { turnId };
    cancelling = sessions.cancel(sessionId, { ...which, origin: "terminal", reason: "Ctrl-C" }).catch(failed);
  };
  const steer = (text: string): void => {
    aside = editor();
    if (text.trim() === "") return draw();
    print(view.note(`${promptSign}${safeText(text.trim())}`, { dim: true }));
    sessions.steer(sessionId, text.trim()).catch(failed);
  };

  const offs: (() => void)[] = [];
  const left = new Promise<Happened>((resolve) => {
    const leave = (): void => resolve({ type: "left" });
    offs.push(screen.terminal.onGone(leave));
    screen.terminal.listen((key) => {
      const edited = press(aside, key);
      switch (edited.type) {
        case "interrupted":
          return cancelling === null ? cancel() : leave();
        case "ended":
          return leave();
        case "submitted":
          return steer(edited.text);
        case "redrawing":
          return screen.clear();
        case "completing":
        case "editing":
          aside = edited.editor;
          draw();
      }
    });
  });
  // Where this process drives the turn and cannot go on, no event says so.
  const broken = new Promise<Happened>((resolve) => {
    handle.result.catch((error: unknown) => resolve({ type: "failed", error }));
  });
  const ticking = setInterval(draw, spinnerEveryMs);
  const events = handle.events[Symbol.asyncIterator]();
  const next = async (): Promise<Happened> => {
    const { done, value } = await events.next();
    return done === true ? { type: "end" } : { type: "event", event: value };
  };
  draw();
  try {
    for (;;) {
      const happened = await Promise.race([
        left,
        broken,
        next().catch((error: unknown): Happened => ({ type: "failed", error })),
      ]);
      if (happened.type === "event") {
        print(view.apply(happened.event, now()));
        continue;
      }
      if (happened.type === "failed") failed(happened.error);
      if (happened.type === "end" && !view.isOver) print(await parkedText(handle, view));
      return { type: happened.type === "end" ? "ended" : happened.type, typed: aside.text };
    }
  } finally {
    clearInterval(ticking);
    for (const off of offs) off();
    screen.terminal.listen(null);
    screen.print(view.close(), noLive);
    void events.return?.();
    // A cancel that was asked for is stored before anybody leaves.
    await Promise.race([cancelling, new Promise((resolve) => setTimeout(resolve, patienceMs).unref())]);
  }
}

/** The turn stopped and was not ended: its code has changed under it. */
async function parkedText(handle: TurnHandle, view: ChatView): Promise<string> {
  const { status, failure } = await handle.result;
  if (status !== "parked") return "";
  const said = failure === null ? "" : view.failure(failure);
  return (
    said +
    view.note(
      "The turn is parked: it cannot be replayed with the code as it is now. /continue ends it, and goes on from before it.",
    )
  );
}

/** What to say of something that was thrown. */
export function errorText(error: unknown): string {
  return safeText(error instanceof Error ? error.message : String(error));
}
