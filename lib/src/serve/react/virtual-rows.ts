// The rows of a long list that are in the document: `useVirtualizer` of @tanstack/react-virtual without `flushSync` of
// react-dom, which this entry point does not import. React renders the rows of a scroll event in the next task; the rows
// beyond the edges (`overscan`) are visible until then.

import type { VirtualizerOptions } from "@tanstack/virtual-core";

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useReducer, useState } from "react";

export type VirtualRows = Virtualizer<HTMLDivElement, Element>;

type RowOptions = Pick<
  VirtualizerOptions<HTMLDivElement, Element>,
  "count" | "estimateSize" | "getItemKey" | "getScrollElement" | "overscan" | "rangeExtractor"
>;

/** React reports an effect of layout as an error where there is no document. */
const useLayout = typeof document === "undefined" ? useEffect : useLayoutEffect;

/** Follows the scroll position of an element. The component renders again when other rows come into view. */
export function useVirtualRows(options: RowOptions): VirtualRows {
  const [, render] = useReducer((renderings: number) => renderings + 1, 0);
  const all: VirtualizerOptions<HTMLDivElement, Element> = {
    ...options,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: render,
  };
  const [rows] = useState(() => new Virtualizer(all));
  rows.setOptions(all);
  // What the adapters of all frameworks call.
  useLayout(() => rows["_didMount"](), [rows]);
  useLayout(() => rows["_willUpdate"]());
  return rows;
}
