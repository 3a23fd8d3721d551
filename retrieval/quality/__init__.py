"""The admins' test bench: searching as a member, question sets, and scores over time."""
