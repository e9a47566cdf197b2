"""What a model of the cookbook needs besides rows of the table, a file a format."""
