// Long texts, cut at a length: the rest is shown in steps, so that one megabyte on one line does not block the page.

import type { ReactNode } from "react";

import { useState } from "react";

import { count } from "../parts/format.ts";
import { beginning, wordClass } from "../parts/text.ts";
import { Button } from "../shell/button.tsx";

/** Renders the beginning of a text, and a button for more. Each further step shows eight times as much. */
export function LongText({
  text,
  limit,
  render,
}: {
  readonly text: string;
  readonly limit: number;
  readonly render: (text: string) => ReactNode;
}): ReactNode {
  const [shown, setShown] = useState(limit);
  if (text.length <= shown) return render(text);
  const step = Math.min(text.length - shown, shown * 7);
  return (
    <>
      {render(beginning(text, shown))}
      <Button look="small more" onClick={() => setShown(shown + step)}>
        Show {step === text.length - shown ? "all" : `${count(step)} more`} of {count(text.length)} characters
      </Button>
    </>
  );
}

/** A text as it is, with line breaks, cut if it is long. */
export function PlainText({
  text,
  limit = 4000,
  className = "plain",
}: {
  readonly text: string;
  readonly limit?: number;
  readonly className?: string;
}): ReactNode {
  return (
    <LongText
      text={text}
      limit={limit}
      render={(part) => (
        <div className={`${className} ${wordClass(part)}`} dir="auto">
          {part}
        </div>
      )}
    />
  );
}
