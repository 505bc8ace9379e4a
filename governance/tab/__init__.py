"""The Governance tab: what decides here, what it decided, and what it would decide."""
