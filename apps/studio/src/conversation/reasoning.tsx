// The reasoning of a model, folded: its first line is shown.

import type { ReactNode } from "react";

import { beginning, visibleName } from "../parts/text.ts";
import { PlainText } from "../text/long-text.tsx";

export function Reasoning({
  text,
  isRedacted = false,
  isOpen = false,
}: {
  readonly text: string;
  readonly isRedacted?: boolean;
  /** The reasoning still arrives. */
  readonly isOpen?: boolean;
}): ReactNode {
  if (isRedacted || text.trim() === "") {
    return isOpen ? null : <p className="think">Thought · the provider withholds the text</p>;
  }
  const first = beginning(text.trim(), 140).split("\n", 1)[0] ?? "";
  return (
    <details className="think">
      <summary>
        {isOpen ? "Thinks" : "Thought"} · <span dir="auto">{visibleName(first)}</span>
      </summary>
      <PlainText text={text} className="plain" />
    </details>
  );
}
