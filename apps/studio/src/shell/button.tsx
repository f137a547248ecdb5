// The buttons of the page. None of them submits a form unless its `type` says so.

import type { ComponentProps, ReactNode } from "react";

/** `look`: further class names, for example `primary small`. */
type ButtonProps = Omit<ComponentProps<"button">, "className"> & { readonly look?: string };

/** A button with a text. */
export function Button({ look = "", ...attributes }: ButtonProps): ReactNode {
  return <button type="button" className={`btn ${look}`.trim()} {...attributes} />;
}

/** A button with a sign. `label`: its accessible name. */
export function IconButton({ label, look = "", ...attributes }: ButtonProps & { readonly label: string }): ReactNode {
  return <button type="button" className={`icon-btn ${look}`.trim()} aria-label={label} {...attributes} />;
}

/** A button that is on or off. */
export function Toggle({ isOn, look = "", ...attributes }: ButtonProps & { readonly isOn: boolean }): ReactNode {
  return <button type="button" className={`chip ${look}`.trim()} aria-pressed={isOn} {...attributes} />;
}
