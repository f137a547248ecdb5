// Highlights code. This module and its grammars are loaded when the first code block with a language is shown.

import type { ReactNode } from "react";

import { common, createLowlight } from "lowlight";
import { createElement } from "react";

const lowlight = createLowlight(common);

type Node = ReturnType<typeof lowlight.highlight>["children"][number];

/** Code as elements with classes; `null`: the language is not known. */
export function highlight(text: string, language: string): ReactNode {
  const name = language.toLowerCase();
  return lowlight.registered(name) ? elementsOf(lowlight.highlight(name, text).children) : null;
}

function elementsOf(nodes: readonly Node[]): readonly ReactNode[] {
  return nodes.map((node, key) => {
    if (node.type === "text") return node.value;
    if (node.type !== "element") return null;
    const names = node.properties["className"];
    const className = Array.isArray(names) ? names.join(" ") : "";
    return createElement("span", { key, className }, elementsOf(node.children));
  });
}
