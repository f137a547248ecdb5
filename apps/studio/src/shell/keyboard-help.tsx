// The dialog with all keyboard shortcuts.

import type { ReactNode } from "react";

import { withModifier } from "./keyboard.ts";
import { Modal } from "./modal.tsx";

const shortcuts: readonly (readonly [keys: readonly string[], text: string])[] = [
  [[withModifier("K"), "/"], "Search and commands"],
  [["j", "k"], "Next and previous message"],
  [["←", "→"], "Move the playhead through the turn"],
  [[withModifier("⏎")], "Approve, in a field of the call"],
  [["s"], "Steer: write to the session"],
  [["["], "Hide or show the sessions"],
  [["]"], "Hide or show the inspector"],
  [["\\"], "Hide or show the timeline"],
  [["n"], "New session"],
  [["Esc"], "Close, or clear the selection"],
  [["?"], "This help"],
];

export function KeyboardHelp({ close }: { readonly close: () => void }): ReactNode {
  return (
    <Modal title="Keyboard" close={close}>
      <dl className="shortcuts">
        {shortcuts.map(([keys, text]) => (
          <div key={text}>
            <dt>
              {keys.map((key) => (
                <kbd key={key} className="kbd">
                  {key}
                </kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
