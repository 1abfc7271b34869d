"""Will drafts work with a target, and how well; and how to make a better one."""
