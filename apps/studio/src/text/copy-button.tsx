// A button that copies a text.

import type { ReactNode } from "react";

import { useEffect, useState } from "react";

import { notifyError } from "../shell/toasts.tsx";

/**
 * `text` is computed on the click. `className`: `btn`, or `copy` for the small button of a code block, whose label is
 * `name`.
 */
export function CopyButton({
  label,
  name,
  className = "btn",
  text,
}: {
  readonly label: string;
  /** The accessible name. Default: the label. */
  readonly name?: string;
  readonly className?: string;
  readonly text: () => string;
}): ReactNode {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1600);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button
      type="button"
      className={className}
      aria-label={name}
      aria-live="polite"
      onClick={() => navigator.clipboard.writeText(text()).then(() => setCopied(true), notifyError)}
    >
      {isCopied ? "Copied ✓" : label}
    </button>
  );
}
