int sum(int a, int b);
