// Shows an error of a view in place of the view, so that the rest of the page keeps working.

import type { ReactNode } from "react";

import { Component } from "react";

import { Button } from "./button.tsx";

type Props = { readonly children: ReactNode };

export class ErrorBoundary extends Component<Props, { readonly error: Error | null }> {
  override state: { readonly error: Error | null } = { error: null };

  static getDerivedStateFromError(error: unknown): { readonly error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="notice" role="alert">
        <h2>This view has failed</h2>
        <p className="muted">{error.message}</p>
        <div className="actions">
          <Button onClick={() => this.setState({ error: null })}>Show it again</Button>
          <Button look="quiet" onClick={() => location.reload()}>
            Reload the page
          </Button>
        </div>
      </div>
    );
  }
}
