// The command palette: sessions by title or id, views, actions of the session that is shown, and messages that contain
// the text, if the storage can search.

import type { SessionSummary } from "../data/types.ts";
import type { Route } from "../route.ts";
import type { ReactNode } from "react";

import { Dialog } from "@base-ui/react/dialog";
import { useEffect, useId, useMemo, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { visibleName } from "../parts/text.ts";
import { navigate, overviewRoute, sessionRoute, waitingRoute } from "../route.ts";
import { statusOf, titleOf } from "../sessions/session-label.ts";
import { useActions } from "./actions.ts";
import { togglePane } from "./panes.tsx";
import { nextTheme, setTheme, useTheme } from "./theme.ts";
import { attempt } from "./toasts.tsx";

type Entry = {
  readonly id: string;
  readonly group: "Actions" | "Views" | "Sessions" | "Messages";
  readonly label: string;
  readonly hint: string;
  /** The parts of the label that match a search. */
  readonly marks: readonly (readonly [number, number])[];
  readonly run: () => void;
};

const maxOfGroup = 8;
const searchDelayMs = 150;

/** Opens the palette with ⌘K or Ctrl+K, also from fields. */
export function usePaletteShortcut(open: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || event.altKey || event.shiftKey)
        return;
      event.preventDefault();
      open();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [open]);
}

export function Palette({
  close,
  openHelp,
  logOut,
}: {
  readonly close: () => void;
  readonly openHelp: () => void;
  readonly logOut: () => void;
}): ReactNode {
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const listId = useId();
  const entries = useEntries(text, { openHelp, logOut });
  const input = useRef<HTMLInputElement>(null);
  const position = Math.min(active, entries.length - 1);
  const run = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    close();
    entry.run();
  };
  useEffect(() => {
    document.querySelector(`#${CSS.escape(`${listId}-${position}`)}`)?.scrollIntoView({ block: "nearest" });
  }, [position, listId]);
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="modal palette" initialFocus={input}>
          <Dialog.Title className="visually-hidden">Search and commands</Dialog.Title>
          <input
            ref={input}
            className="palette-input"
            placeholder="Search sessions, messages, actions"
            aria-label="Search sessions, messages and actions"
            role="combobox"
            aria-expanded="true"
            aria-controls={listId}
            aria-activedescendant={entries.length === 0 ? undefined : `${listId}-${position}`}
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setActive(0);
            }}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown") setActive(Math.min(position + 1, entries.length - 1));
              else if (event.key === "ArrowUp") setActive(Math.max(position - 1, 0));
              else if (event.key === "Enter") run(entries[position]);
              else return;
              event.preventDefault();
            }}
          />
          <div className="palette-list" id={listId} role="listbox" aria-label="Results">
            {entries.map((entry, index) => (
              <div key={entry.id}>
                {entries[index - 1]?.group !== entry.group && (
                  <div className="palette-group" aria-hidden="true">
                    {entry.group}
                  </div>
                )}
                <div
                  id={`${listId}-${index}`}
                  role="option"
                  tabIndex={-1}
                  aria-selected={index === position}
                  className="palette-entry"
                  onPointerMove={() => setActive(index)}
                  onClick={() => run(entry)}
                >
                  <span className="palette-label" dir="auto">
                    <Marked text={entry.label} marks={entry.marks} />
                  </span>
                  <span className="muted">{entry.hint}</span>
                </div>
              </div>
            ))}
            {entries.length === 0 && <p className="palette-empty muted">Nothing found</p>}
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function useEntries(
  text: string,
  { openHelp, logOut }: { readonly openHelp: () => void; readonly logOut: () => void },
): readonly Entry[] {
  const { client, inspector, server } = useConnection();
  const actions = useActions();
  const theme = useTheme();
  const searched = useDelayed(text.trim());
  const sessions = useQuery("palette-sessions", async (signal) => client.list({ limit: 100, signal }));
  const hits = useQuery(server.search && searched.length > 1 ? `search:${searched}` : null, async (signal) =>
    inspector.search(searched, { limit: maxOfGroup, signal }),
  );
  // An old session is not among the newest, so an id is looked up.
  const isListed = sessions.data?.items.some(({ id }) => id === searched) !== false;
  const byId = useQuery(!isListed && idPattern.test(searched) ? `session-by-id:${searched}` : null, async (signal) =>
    client.get(searched, { messages: 0, signal }),
  );
  return useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (label: string): boolean => words.every((word) => label.toLowerCase().includes(word));
    const entry = (group: Entry["group"], id: string, label: string, hint: string, run: () => void): Entry => ({
      id: `${group}:${id}`,
      group,
      label,
      hint,
      marks: [],
      run,
    });
    const view = (label: string, route: Route): Entry => entry("Views", label, label, "view", () => navigate(route));
    const own = [
      ...actions.map(({ id, label, run }) => entry("Actions", id, label, "", run)),
      ...server.scenarios.map(({ name, title }) =>
        entry("Actions", `scenario-${name}`, `Scenario: ${title}`, "start", () =>
          attempt(async () => {
            const { sessionId } = await inspector.startScenario(name);
            navigate(sessionRoute(sessionId));
          }),
        ),
      ),
      entry("Actions", "theme", `Theme: change from ${theme} to ${nextTheme(theme)}`, "", () =>
        setTheme(nextTheme(theme)),
      ),
      entry("Actions", "pane-sessions", "Hide or show the sessions", "[", () => togglePane("sessions")),
      entry("Actions", "pane-inspector", "Hide or show the inspector", "]", () => togglePane("inspector")),
      entry("Actions", "pane-timeline", "Hide or show the timeline", "\\", () => togglePane("timeline")),
      entry("Actions", "help", "Keyboard shortcuts", "?", openHelp),
      entry("Actions", "log-out", "Log out", "", logOut),
    ].filter(({ label }) => matches(label));
    const views = [
      view("Sessions", { view: "sessions" }),
      view("Waiting", waitingRoute()),
      view("Overview", overviewRoute()),
      view("Playground", { view: "playground", from: null }),
      view("Open a replay file", { view: "replay" }),
    ].filter(({ label }) => matches(label));
    const found = (sessions.data?.items ?? [])
      .map((summary) => ({ summary, title: titleOf(summary) }))
      .filter(({ summary, title }) => matches([title, summary.id, ...toolsOf(summary)].join(" ")))
      .slice(0, maxOfGroup)
      .map(({ summary, title }) =>
        entry("Sessions", summary.id, title, statusOf(summary).text, () => navigate(sessionRoute(summary.id))),
      );
    if (byId.data !== null && byId.data.session.id === text.trim()) {
      const { id } = byId.data.session;
      found.unshift(entry("Sessions", id, id, "by id", () => navigate(sessionRoute(id))));
    }
    const messages = (hits.data ?? []).map(({ sessionId, position, title, excerpt, matches: marks }): Entry => ({
      id: `Messages:${sessionId}:${position}`,
      group: "Messages",
      ...withVisibleMatch(excerpt, marks),
      hint: visibleName(title ?? sessionId),
      run: () => navigate(sessionRoute(sessionId, { message: position })),
    }));
    if (words.length === 0) return [...found, ...views, ...own];
    // A view or an action whose name the reader types comes first, and messages that are found later do not take its
    // place.
    const typed = text.trim().toLowerCase();
    const isTyped = ({ label }: Entry): boolean => label.toLowerCase().startsWith(typed);
    const named = [...views, ...own].filter(isTyped);
    const others = [...views, ...own.slice(0, maxOfGroup)].filter((other) => !named.includes(other));
    return [...named, ...found, ...messages, ...others];
  }, [text, actions, theme, sessions.data, byId.data, hits.data, server, inspector, openHelp, logOut]);
}

/** The tools whose calls wait in a session. */
function toolsOf({ pendingToolCalls }: SessionSummary): readonly string[] {
  return pendingToolCalls.map(({ shown }) => shown.name);
}

/** What may be the id of a session: one word with a digit, a dash or an underscore. */
const idPattern = /^(?=.*[\d_-])\S{6,200}$/;

/** The characters before the first match that a line shows. */
const charactersBefore = 16;

/** An excerpt that begins shortly before its first match, so that the match is on the line. */
function withVisibleMatch(excerpt: string, marks: Entry["marks"]): Pick<Entry, "label" | "marks"> {
  const first = marks[0]?.[0] ?? 0;
  if (first <= 2 * charactersBefore) return { label: excerpt, marks };
  const space = excerpt.indexOf(" ", first - charactersBefore);
  const start = space === -1 || space >= first ? first : space + 1;
  return {
    label: `…${excerpt.slice(start)}`,
    marks: marks.map(([from, until]) => [from - start + 1, until - start + 1] as const),
  };
}

/** A text with its matches marked. Offsets outside of the text are ignored. */
function Marked({
  text,
  marks,
}: {
  readonly text: string;
  readonly marks: readonly (readonly [number, number])[];
}): ReactNode {
  const pieces: ReactNode[] = [];
  let end = 0;
  for (const [from, until] of marks) {
    if (from < end || until > text.length) continue;
    pieces.push(visibleName(text.slice(end, from)), <mark key={from}>{visibleName(text.slice(from, until))}</mark>);
    end = until;
  }
  return [...pieces, visibleName(text.slice(end))];
}

/** The value once it has not changed for some time: not every key press is a request. */
function useDelayed(value: string): string {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), searchDelayMs);
    return () => clearTimeout(timer);
  }, [value]);
  return delayed;
}
