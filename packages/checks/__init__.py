"""What `packages/check` does: one module for each thing that a package must be."""
