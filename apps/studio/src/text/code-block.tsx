// A block of code with a copy button. Colours are added once the highlighter is loaded.

import type { ReactNode } from "react";

import { memo, useEffect, useState } from "react";

import { CopyButton } from "./copy-button.tsx";
import { LongText } from "./long-text.tsx";

/** Longer code is shown without colours. */
const maxHighlighted = 20_000;

export const CodeBlock = memo(function CodeBlock({
  text,
  language,
}: {
  readonly text: string;
  readonly language: string | null;
}): ReactNode {
  const [coloured, setColoured] = useState<ReactNode>(null);
  useEffect(() => {
    if (language === null || text.length > maxHighlighted) return undefined;
    let isShown = true;
    const colour = async (): Promise<void> => {
      const { highlight } = await import("./highlight.tsx");
      if (isShown) setColoured(highlight(text, language));
    };
    // Code without colours is still code: a chunk that cannot be loaded is not worth a message.
    colour().catch(() => undefined);
    return () => {
      isShown = false;
    };
  }, [text, language]);
  return (
    <div className="code-block">
      <div className="code-head">
        <span>{language ?? "text"}</span>
        <CopyButton className="copy" label="Copy" name="Copy the code" text={() => text} />
      </div>
      {/* Code has the direction of its language, whatever it contains. */}
      <pre dir="ltr" tabIndex={0} aria-label="Code">
        <code>{coloured ?? <LongText text={text} limit={20_000} render={(part) => part} />}</code>
      </pre>
    </div>
  );
});
