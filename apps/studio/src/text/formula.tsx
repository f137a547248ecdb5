// A formula: TeX as MathML, which browsers lay out and screen readers read. The converter is loaded with the first
// formula. Until then, and if a formula cannot be converted, its source is shown.
//
// The converter builds elements and sets their properties. It writes no HTML, which the Content-Security-Policy would
// refuse for its inline styles. Without `trust` it makes no links and loads nothing.

import type { ReactNode } from "react";

import { useLayoutEffect, useRef, useState } from "react";
import "temml/dist/Temml-Local.css";

import "./formula.css";

/** How many macros a formula may expand. It bounds the time of a hostile one. */
const maxExpand = 1000;
/** The largest size that a formula may give a rule or a space, in em. */
const maxSize: [number, number] = [20, 200];

export function Formula({ tex, isDisplay }: { readonly tex: string; readonly isDisplay: boolean }): ReactNode {
  const place = useRef<HTMLSpanElement>(null);
  const [isConverted, setConverted] = useState(false);
  useLayoutEffect(() => {
    let isCurrent = true;
    const convert = async (): Promise<void> => {
      const { default: temml } = await import("temml");
      if (!isCurrent || place.current === null) return;
      const options = { displayMode: isDisplay, throwOnError: true, trust: false, maxExpand, maxSize };
      temml.render(tex, place.current, options);
      setConverted(true);
    };
    convert().catch(() => isCurrent && setConverted(false));
    return () => {
      isCurrent = false;
    };
  }, [tex, isDisplay]);
  return (
    <>
      <span ref={place} className={isDisplay ? "formula display" : "formula"} hidden={!isConverted} />
      {!isConverted && <code>{tex}</code>}
    </>
  );
}
