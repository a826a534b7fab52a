-- `seq` orders the messages of one millisecond in lists. A cache hands each connection a block of numbers, and messages
-- accepted one after the other through two connections would stand in the wrong order.

alter sequence message_seq cache 1;
