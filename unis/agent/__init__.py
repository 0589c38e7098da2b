"""The agent of a server: classes of service for what is promised on it, and a watch over that."""
