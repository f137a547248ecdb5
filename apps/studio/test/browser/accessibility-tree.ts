// The accessibility tree that Chromium gives to screen readers: what they read, not what the markup says.

import type { Page } from "playwright-core";

type TreeNode = {
  readonly ignored: boolean;
  readonly role: string;
  readonly name: string;
  readonly properties: { readonly [name: string]: unknown };
};

/** Roles that a reader operates. Each needs a name. */
const controls = new Set([
  "button",
  "link",
  "textbox",
  "searchbox",
  "combobox",
  "checkbox",
  "radio",
  "switch",
  "slider",
  "spinbutton",
  "option",
  "tab",
  "menuitem",
  "listbox",
  "dialog",
  "alertdialog",
  "navigation",
  "complementary",
  "region",
  "img",
  "image",
]);

/** All nodes of the page that are not ignored. */
export async function accessibilityTree(page: Page): Promise<readonly TreeNode[]> {
  const devtools = await page.context().newCDPSession(page);
  try {
    const { nodes } = await devtools.send("Accessibility.getFullAXTree");
    return nodes
      .map(({ ignored, role, name, properties = [] }) => ({
        ignored,
        role: String(role?.value ?? ""),
        name: String(name?.value ?? "").trim(),
        properties: Object.fromEntries(properties.map((property) => [property.name, property.value.value])),
      }))
      .filter((node) => !node.ignored);
  } finally {
    await devtools.detach();
  }
}

/** Controls without a name, and pages without the landmarks that screen readers jump to. */
export async function treeFaults(page: Page): Promise<readonly string[]> {
  const nodes = await accessibilityTree(page);
  const unnamed = nodes.filter(({ role, name }) => controls.has(role) && name === "");
  const count = (role: string): number => nodes.filter((node) => node.role === role).length;
  const isDialogOpen = count("dialog") + count("alertdialog") > 0;
  return [
    ...new Set(unnamed.map(({ role }) => `a ${role} has no name for screen readers`)),
    // A dialog hides the rest of the page.
    ...(isDialogOpen || count("main") === 1 ? [] : [`the page has ${count("main")} main landmarks`]),
    ...(isDialogOpen || nodes.some(({ role }) => role === "heading") ? [] : ["the page has no heading"]),
  ];
}
