"""From a model's name to its renderer: request, selection, creation, check."""
