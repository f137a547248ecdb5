// The buttons of the components. None of them submits a form.

import type { ComponentProps, ReactNode } from "react";

type ButtonProps = Omit<ComponentProps<"button">, "className" | "type"> & {
  readonly look?: "primary" | "danger" | "quiet" | "small";
};

/** A button with a text. */
export function Button({ look, ...attributes }: ButtonProps): ReactNode {
  const className = look === undefined ? "everturn-button" : `everturn-button ${look}`;
  return <button {...attributes} type="button" className={className} />;
}

/** A button that is on or off. */
export function Toggle({ isOn, ...attributes }: Omit<ButtonProps, "look"> & { readonly isOn: boolean }): ReactNode {
  return <button {...attributes} type="button" className="everturn-toggle" aria-pressed={isOn} />;
}
