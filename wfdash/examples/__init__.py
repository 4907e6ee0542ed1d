"""The example workflows that come with wfdash."""
